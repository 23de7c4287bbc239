"""The style sheet and the one script of the page, both inline: the page asks the network nothing."""

from __future__ import annotations

from html import escape

CSS = """
:root{color-scheme:light dark;--bg:#fff;--text:#1b1f24;--muted:#57606a;--line:#d0d7de;--soft:#f4f6f8;
--link:#0b57a4;--gain:#00694f;--loss:#a83a00;--note:#fff6e0;--note-line:#b78900}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--text:#e6e8eb;--muted:#a7afb9;--line:#3a414a;
--soft:#1e2329;--link:#85bdff;--gain:#56d3a6;--loss:#ff9d6e;--note:#2b2617;--note-line:#d8a92b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--text);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main,header,footer{max-width:1180px;margin:0 auto;padding:0 20px}
header{padding-top:28px}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4em;overflow-wrap:anywhere}
h2{font-size:1.35rem;line-height:1.3;margin:2.4em 0 .5em;padding-top:.5em;
border-top:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.6em 0 .4em}
p,li,dd{max-width:75ch;overflow-wrap:break-word}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{
outline:2px solid var(--link);outline-offset:2px}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.3em 1.2em;padding:0;margin:1em 0}
.notes p,figcaption,.files{font-size:.875rem;color:var(--muted);margin:.5em 0}
.notes p{max-width:95ch}
.limits{background:var(--note);border-left:4px solid var(--note-line);padding:.6em 1em;margin:1.2em 0}
.limits h2{border:0;padding:0;margin:0;font-size:1.05rem}
.limits ul{margin:.3em 0;padding-left:1.2em}
.scroll{overflow-x:auto;width:fit-content;max-width:100%;margin:.6em 0;
border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;font-size:.875rem;line-height:1.35;
font-variant-numeric:tabular-nums lining-nums}
th,td{padding:.32em .6em;vertical-align:top}
thead th{background:var(--soft);font-weight:600;text-align:right;vertical-align:bottom;
white-space:nowrap}
thead th.wrap{white-space:normal;min-width:6.5em}
thead th.group{text-align:center;border-left:1px solid var(--line)}
tbody th{text-align:left;font-weight:400;white-space:nowrap}
tbody th,th.stub{position:sticky;left:0;background:var(--bg);z-index:1}
thead th.stub{text-align:left;background:var(--soft)}
tbody th.method{font-weight:700}
tbody th.under{padding-left:1.4em}
tbody{border-top:1px solid var(--line)}
tbody.single{border-top:0}
tr.bound{font-style:italic}
tr.bound th{color:var(--muted)}
td{text-align:right;white-space:nowrap}
td.first{border-left:1px solid var(--line)}
td.text{text-align:right}
td.none{color:var(--muted)}
td a{color:inherit;text-decoration:underline;
text-decoration-color:var(--line);text-underline-offset:.2em}
td a:hover{text-decoration-color:currentColor}
.sd,.p{font-size:.75rem;font-style:normal;color:var(--muted);font-weight:400}
.g,.p{display:block}
.g{font-size:.8125rem;color:var(--muted)}
.up{color:var(--gain)}.down{color:var(--loss)}
.best{font-weight:700}
figure{margin:1.4em 0}
figure .picture{overflow-x:auto}
figure svg{display:block;width:100%;height:auto;color:var(--text);
font-family:'DejaVu Sans',Verdana,sans-serif}
figure svg *{stroke-linejoin:round;stroke-linecap:butt}
figcaption{max-width:90ch}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.7em .9em;
overflow-x:auto;font:.8125rem/1.45 ui-monospace,Menlo,Consolas,monospace;max-width:100%}
dl{display:grid;grid-template-columns:minmax(7em,max-content) minmax(0,1fr);gap:.35em 1.2em;
margin:.5em 0}
dt{font-weight:600;overflow-wrap:anywhere;max-width:16em}
dd{margin:0;min-width:0;overflow-wrap:anywhere}
dd dl,dd ul{margin:0}
dd dt{font-weight:400;color:var(--muted)}
dd ul{padding-left:1.1em}
dd pre,dd .scroll{margin:.1em 0 .3em}
dd td:first-child,dd thead th:first-child{text-align:left}
.sources{columns:24em;column-gap:2em;font-size:.8125rem;padding-left:1.2em}
.sources li{break-inside:avoid;overflow-wrap:anywhere}
li:target{background:var(--note)}
details{margin:.8em 0}
summary{cursor:pointer}
footer{padding:2.5em 20px;color:var(--muted);font-size:.875rem}
@media (max-width:640px){
main,header,footer{padding-left:14px;padding-right:14px}
body{font-size:15px}h1{font-size:1.5rem}
tbody th,thead th.stub{white-space:normal;max-width:8.5em;min-width:6em}
th,td{padding:.3em .45em}
dl{grid-template-columns:minmax(0,1fr);gap:.1em}dd{margin-bottom:.5em}
}
@media print{.scroll{overflow:visible}nav{display:none}}
"""

# A link into a closed <details> opens it; not every browser does so by itself.
SCRIPT = """
function reveal(){var e=document.getElementById(decodeURIComponent(location.hash.slice(1)));
var d=e&&e.closest("details");if(d&&!d.open){d.open=true;e.scrollIntoView()}}
addEventListener("hashchange",reveal);reveal();
"""


def document(title: str, body: str, *, css: str = CSS, script: str = "") -> str:
    """A whole page around a body that is escaped already, `title` is not."""
    script = f"<script>{script}</script>\n" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{css}</style>\n</head>\n<body>\n"
        f"{body}{script}</body>\n</html>\n"
    )
