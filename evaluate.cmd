@echo off
rem The program of this repository on Windows: evaluate demo, evaluate score --help, ...
rem Needs Python 3.11 to 3.14; its packages go into .venv beside this script at the first call.
setlocal
set "root=%~dp0"
if exist "%root%.venv\ready" goto run
echo Setting up "%root%.venv" (once; a minute or two) ... 1>&2
py -3 -m venv "%root%.venv" || exit /b 1
"%root%.venv\Scripts\python" -m pip --disable-pip-version-check --quiet install "%root%.[report]" || exit /b 1
type nul >"%root%.venv\ready"
:run
set "PYTHONPATH=%root%;%root%library"
set PYTHONSAFEPATH=1
"%root%.venv\Scripts\python" -m evaluation %*
