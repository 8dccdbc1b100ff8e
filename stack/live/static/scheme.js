// Before the first paint: light or dark, as the viewer chose here or else as the system says.
{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = localStorage.getItem("theme") ?? (system.matches ? "dark" : "light");
  };
  apply();
  system.addEventListener("change", () => {
    apply();
    dispatchEvent(new Event("themechange"));
  });
}
