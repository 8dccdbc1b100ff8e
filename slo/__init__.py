"""The shared kernel: what "good" means, and the names under which it is measured. Pure; standard library and PyYAML.

Only `slo.dashboards` needs more (the Grafana SDK), and only `slo.generate` imports it.
"""
