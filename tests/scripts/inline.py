"""Pictures in the terminal itself: gspmd under a pseudo-terminal that answers as kitty, as one with sixels, or not at all.

usage: inline.py GSPMD
"""
import base64
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import zlib

gspmd = sys.argv[1]
passed = failed = 0


def check(name, ok, note=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print("FAIL", name, note)


def run(script, answer, env=None, drop=()):
    """What gspmd writes to a terminal that answers the question "who are you" so (None: never)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    variables = {k: v for k, v in os.environ.items()
                 if k not in ("TMUX", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL", "LC_ALL", "LC_CTYPE", "LANG") + drop}
    variables.update({"TERM": "xterm-256color", "PAGER": "cat", "LC_ALL": "C.UTF-8"})
    variables.update(env or {})
    child = subprocess.Popen([gspmd, "-q", "-n", "-c", script], stdin=slave, stdout=slave, stderr=slave, env=variables,
                             start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    out, asked, end = b"", 0, time.time() + 30
    while time.time() < end:
        ready, _, _ = select.select([master], [], [], 0.2)
        if not ready:
            if child.poll() is not None:
                break
            continue
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
        if out.count(b"\033[c") > asked:
            asked += 1
            if answer is not None:
                os.write(master, answer)
    child.wait(timeout=10)
    os.close(master)
    return out, asked, child.returncode


def png_of(text):
    return base64.b64decode(text) if text else b""


def is_png(data):
    """The signature, and a checksum that holds in each piece."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return False
    at = 8
    while at + 12 <= len(data):
        n = int.from_bytes(data[at:at + 4], "big")
        if zlib.crc32(data[at + 4:at + 8 + n]) != int.from_bytes(data[at + 8 + n:at + 12 + n], "big"):
            return False
        if data[at + 4:at + 8] == b"IEND":
            return at + 12 + n == len(data)
        at += 12 + n
    return False


def kitty_png(out):
    pieces = re.findall(rb"\033_G(a=T,f=100,)?m=([01]);([A-Za-z0-9+/=]*)\033\\", out)
    if not pieces or any(len(p[2]) > 4096 for p in pieces) or [p[1] for p in pieces] != [b"1"] * (len(pieces) - 1) + [b"0"]:
        return b""
    return png_of(b"".join(p[2] for p in pieces))


PLOT = "mesh data=2 model=4; plot mesh"
sixel = re.compile(rb"\033P0;1;0q\"1;1;(\d+);(\d+)#0;2;.*\033\\", re.S)

out, asked, status = run(PLOT + " --inline", b"\033_Gi=31;OK\033\\\033[?62;c")
check("kitty, asked", status == 0 and asked == 1 and is_png(kitty_png(out)), out[-200:])
out, asked, status = run(PLOT + " --inline", b"\033[?62;4;22c")
found = sixel.search(out)
check("sixels, asked", status == 0 and asked == 1 and found and int(found[1]) > 300, out[-200:])
out, asked, status = run(PLOT + " --inline; plot mesh --inline", b"\033[?64;1;4c")
check("asked once", asked == 1 and len(re.findall(rb"\033P0;1;0q", out)) == 2)
out, asked, status = run(PLOT + " --inline", b"\033[?62;22c")
check("a terminal that shows none says so", status == 2 and b"shows no pictures" in out and b"\033P" not in out)
out, asked, status = run(PLOT + " --inline", None)
check("a terminal that never answers", status == 2 and asked == 1 and b"shows no pictures" in out)
out, asked, status = run(PLOT, b"\033[?62;4c")
check("nobody asked for one: text", asked == 0 and "│".encode() in out)
out, asked, status = run("set inline=auto; " + PLOT, b"\033[?62;4c")
check("set inline=auto", asked == 1 and sixel.search(out))
out, asked, status = run("set inline=auto; " + PLOT, b"\033[?62c")
check("set inline=auto where there is none: text", status == 0 and "│".encode() in out)
out, asked, status = run("set inline=kitty; " + PLOT, None)
check("set inline=kitty asks nobody", asked == 0 and is_png(kitty_png(out)))
out, asked, status = run(PLOT + " --inline", None, {"KITTY_WINDOW_ID": "1"})
check("kitty by its variable", asked == 0 and is_png(kitty_png(out)))
out, asked, status = run(PLOT + " --inline", None, {"TERM_PROGRAM": "iTerm.app"})
found = re.search(rb"\033\]1337;File=inline=1;size=(\d+):([A-Za-z0-9+/=]*)\a", out)
check("iTerm2 by its variable", found and is_png(png_of(found[2])) and len(png_of(found[2])) == int(found[1]))
out, asked, status = run(PLOT + " --inline", b"\033[?62;4c", {"KITTY_WINDOW_ID": "1", "TMUX": "x"})
check("inside tmux only its own answer counts", asked == 1 and sixel.search(out) and not kitty_png(out))
out, asked, status = run("set inline=auto; " + PLOT, b"\033[?62;4c", {"TERM": "dumb"})
check("a dumb terminal is not asked", asked == 0 and "│".encode() in out)
out, asked, status = run("set inline=sixel; " + PLOT + " > /dev/null", None)
check("redirected: no escapes", b"\033P" not in out and status == 0)

# characters
out, asked, status = run(PLOT, None, {"LC_ALL": "C"})
check("another encoding: ASCII", all(b < 128 for b in out) and b"+---" in out, out)
out, asked, status = run("set glyphs=ascii; " + PLOT, None)
check("set glyphs=ascii", all(b < 128 for b in out) and b"+---" in out)
out, asked, status = run("set glyphs=unicode; " + PLOT, None, {"LC_ALL": "C"})
check("set glyphs=unicode", "┌".encode() in out)

# off the terminal: text, whatever the variables say; and escapes only when they are asked for
plain = subprocess.run([gspmd, "-q", "-n", "-c", "set inline=auto; " + PLOT], capture_output=True,
                       env=dict(os.environ, KITTY_WINDOW_ID="1"), check=False)
check("a pipe gets text", plain.returncode == 0 and b"\033" not in plain.stdout and "│".encode() in plain.stdout)
forced = subprocess.run([gspmd, "-q", "-n", "-c", "set inline=sixel; " + PLOT + " --inline"], capture_output=True, check=False)
check("a pipe gets sixels when told so", sixel.search(forced.stdout))

print(f"inline: {passed} passed, {failed} failed")
sys.exit(failed > 0)
