"""Reports as pages: what stands on them (page.py), who makes them of results, who draws them (html.py, terminal.py)."""
