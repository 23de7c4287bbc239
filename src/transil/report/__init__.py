"""Figures and tables of results, and the page that shows them.

Matplotlib is imported only when something is drawn.
"""

from transil.report.figures import draw_evaluation
from transil.report.markdown_page import write_markdown
from transil.report.page import write_report
from transil.report.tables import Table

__all__ = ["Table", "draw_evaluation", "write_markdown", "write_report"]
