"""The drawing library as it is sent: the same program, marked for the browser to compile while it arrives."""

from importlib.resources import files

from stack.live.web import compiled_at_once


def test_the_outermost_function_is_parenthesised() -> None:
    script = b"(function(root, factory) {root.x = factory();} (this, () => {\nreturn 1;\n}));\n"
    assert (
        compiled_at_once(script)
        == b"(function(root, factory) {root.x = factory();} (this, (() => {\nreturn 1;\n})));\n"
    )


def test_another_script_is_left_alone() -> None:
    for script in (b"window.Plotly = 1;\n", b"a(this, () => {}); b(this, () => {}));\n", b"f(this, () => {})\n"):
        assert compiled_at_once(script) == script


def test_the_installed_plotly_is_one_of_that_form() -> None:
    script = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    sent = compiled_at_once(script)
    assert len(sent) == len(script.rstrip()) + 3  # two parentheses and the line's end
    assert sent.rstrip().endswith(b"})));")
