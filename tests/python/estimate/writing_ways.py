"""Ways in which programs change files, each a program that runs in a folder of precious files.

Each asserts that it can read back what it did. Nothing in a name is random afterwards, so that the
folder can be compared with one in which the same program ran for real.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sqlite3
import zipfile
from pathlib import Path

from estimate.process_ways import PROCESSES

LONG_AGO = 1_500_000_000
PREAMBLE = """
import os, shutil, subprocess, sys
from pathlib import Path
def text(path): return Path(path).read_text()
def names(path="."): return sorted(os.listdir(path))
def sh(command): subprocess.run(command, shell=True, check=True)
def run(*command, **more): subprocess.run(command, check=True, **more)
"""


def make_precious(folder: Path) -> None:
    """Files of all kinds, all old."""
    (folder / "data" / "deep" / "deeper").mkdir(parents=True)
    (folder / "empty").mkdir()
    files = {
        "notes.txt": b"first line\nsecond line\n",
        "log.txt": b"started\n",
        "weights.bin": bytes(range(256)) * 256,
        ".hidden": b"hidden\n",
        "locked.txt": b"locked\n",
        "tool.sh": b'#!/bin/sh\necho "tool $1"\necho tool >made_by_tool.txt\n',
        "data/a.csv": b"1,2\n",
        "data/b.csv": b"3,4\n",
        "data/deep/x.txt": b"x\n",
        "data/deep/deeper/y.txt": b"y\n",
        "name with space.txt": b"space\n",
        "säule.txt": "säule\n".encode(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "tool.sh").chmod(0o755)
    (folder / "locked.txt").chmod(0o444)
    (folder / "link.txt").symlink_to("notes.txt")
    (folder / "data_link").symlink_to("data")
    (folder / "dangling").symlink_to("nothing_here.txt")
    with sqlite3.connect(folder / "runs.db") as base:
        base.execute("create table runs (name text, loss real)")
        base.execute("insert into runs values ('first', 0.5)")
    base.close()
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("inside.txt"), "inside\n")
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


OPENING = {
    "open to overwrite": "open('notes.txt', 'w').write('new'); assert text('notes.txt') == 'new'",
    "open to append": """
with open('log.txt', 'a') as log: log.write('more')
assert text('log.txt') == 'started\\nmore'""",
    "open to change in place": """
with open('weights.bin', 'r+b') as file: file.seek(100); file.write(b'new'); file.truncate(200)
assert os.path.getsize('weights.bin') == 200 and Path('weights.bin').read_bytes()[100:103] == b'new'""",
    "open a new file": """
open('new.txt', 'w').write('new'); assert 'new.txt' in names() and text('new.txt') == 'new'""",
    "open exclusively": """
open('new.txt', 'x').write('new')
try: open('notes.txt', 'x')
except FileExistsError: pass
else: raise AssertionError""",
    "open to write and read": """
with open('notes.txt', 'w+') as file:
    file.write('abc'); file.seek(0); assert file.read() == 'abc'""",
    "open to read and truncate": """
os.close(os.open('notes.txt', os.O_RDONLY | os.O_TRUNC)); assert text('notes.txt') == ''""",
    "open in a new folder": """
os.makedirs('out/run/1'); open('out/run/1/model.pt', 'wb').write(b'model')
assert [*os.walk('out')][-1] == ('out/run/1', [], ['model.pt'])""",
    "open in an old folder": """
open('data/deep/new.txt', 'w').write('new'); assert names('data/deep') == ['deeper', 'new.txt', 'x.txt']""",
    "open through a link": """
open('link.txt', 'w').write('new'); assert text('notes.txt') == 'new' and os.path.islink('link.txt')""",
    "open through a linked folder": """
open('data_link/a.csv', 'a').write('5'); assert text('data/a.csv') == '1,2\\n5'
open('data_link/../up.txt', 'w').write('up'); assert text('up.txt') == 'up'""",
    "open through a dangling link": """
open('dangling', 'w').write('found'); assert text('nothing_here.txt') == 'found'""",
    "open relative to a folder": """
folder = os.open('data', os.O_RDONLY)
os.close(os.open('new.csv', os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder))
os.unlink('a.csv', dir_fd=folder); os.mkdir('made', dir_fd=folder)
os.rename('b.csv', 'c.csv', src_dir_fd=folder, dst_dir_fd=folder)
assert names(folder) == names('data') == ['c.csv', 'deep', 'made', 'new.csv'], names(folder)""",
    "open what only the owner may": """
os.chmod('locked.txt', 0o644); open('locked.txt', 'a').write('more'); assert text('locked.txt') == 'locked\\nmore'""",
    "open from another folder": """
os.chdir('data/deep'); open('../../log.txt', 'a').write('deep'); open('z.txt', 'w').write('z')
assert names() == ['deeper', 'x.txt', 'z.txt'] and os.getcwd().endswith('data/deep')
assert text('../../log.txt') == 'started\\ndeep'""",
    "open through /proc": """
with open('notes.txt') as notes:
    open(f'/proc/self/fd/{notes.fileno()}', 'w').write('new')
assert text('notes.txt') == 'new'""",
    "read and write at once": """
with open('notes.txt') as old, open('copy.tmp', 'w') as new: new.write(old.read().upper())
os.replace('copy.tmp', 'notes.txt'); assert text('notes.txt') == 'FIRST LINE\\nSECOND LINE\\n'""",
    "unnamed file": """
fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o644); os.write(fd, b'unnamed')
import ctypes; assert ctypes.CDLL(None).linkat(-100, b'/proc/self/fd/%d' % fd, -100, b'named.txt', 0x400) == 0
assert text('named.txt') == 'unnamed'""",
    "descriptor calls": """
fd = os.open('weights.bin', os.O_RDWR); os.pwrite(fd, b'abc', 10); os.posix_fallocate(fd, 0, 70000)
os.fchmod(fd, 0o640); os.utime(fd, (1, 2)); os.fsync(fd)
assert os.fstat(fd).st_size == os.stat('weights.bin').st_size == 70000 and os.stat('weights.bin').st_mtime == 2""",
    "mode of a file open for reading": """
fd = os.open('notes.txt', os.O_RDONLY); os.fchmod(fd, 0o600); os.utime(fd, (1, 2))
assert os.stat('notes.txt').st_mode & 0o777 == 0o600 and os.stat('notes.txt').st_mtime == 2""",
}

NAMING = {
    "unlink": """
os.unlink('notes.txt'); assert not os.path.exists('notes.txt') and 'notes.txt' not in names()
assert os.path.islink('link.txt') and not os.path.exists('link.txt')""",
    "unlink and write again": """
os.remove('notes.txt'); open('notes.txt', 'w').write('again'); assert text('link.txt') == 'again'""",
    "rename": """
os.rename('notes.txt', 'moved.txt'); assert text('moved.txt').startswith('first')
assert not os.path.exists('notes.txt')""",
    "rename over": """
os.replace('log.txt', 'notes.txt'); assert text('notes.txt') == 'started\\n'
assert not os.path.exists('log.txt')""",
    "rename and change": """
os.rename('weights.bin', 'old.bin'); open('old.bin', 'ab').write(b'!')
assert os.path.getsize('old.bin') == 65537; os.rename('old.bin', 'weights.bin')""",
    "rename twice and back": """
os.rename('notes.txt', 'a'); os.rename('a', 'b'); os.rename('b', 'notes.txt')
assert text('notes.txt').startswith('first') and 'b' not in names()""",
    "rename a folder": """
os.rename('data', 'moved'); assert names('moved/deep') == ['deeper', 'x.txt']
assert text('moved/deep/deeper/y.txt') == 'y\\n' and not os.path.exists('data')
open('moved/deep/x.txt', 'a').write('more')""",
    "rename a changed folder": """
open('data/new.txt', 'w').write('new'); os.remove('data/a.csv'); os.rename('data', 'moved')
assert names('moved') == ['b.csv', 'deep', 'new.txt']; os.mkdir('data'); assert names('data') == []""",
    "rename a new folder over an empty one": """
os.mkdir('out'); open('out/x', 'w').write('x'); os.rename('out', 'empty'); assert names('empty') == ['x']""",
    "rename a new folder in place of an old one": """
os.mkdir('data.new'); open('data.new/only', 'w').write('only'); os.rename('data', 'data.old')
os.rename('data.new', 'data'); shutil.rmtree('data.old'); assert names('data') == ['only']""",
    "rename that fails": """
for source, target in (('data', 'notes.txt'), ('notes.txt', 'data'), ('none', 'x'), ('data', 'data/in')):
    try: os.rename(source, target)
    except OSError as error: print(error.errno)
os.mkdir('full'); open('full/x', 'w').close()
try: os.rename('full', 'data')
except OSError as error: print(error.errno)""",
    "exchange": """
import ctypes
assert ctypes.CDLL(None).renameat2(-100, b'notes.txt', -100, b'log.txt', 2) == 0
assert text('notes.txt') == 'started\\n' and text('log.txt').startswith('first')""",
    "hard link": """
os.link('notes.txt', 'hard.txt'); open('hard.txt', 'a').write('third'); assert text('notes.txt').endswith('third')
assert os.path.samefile('hard.txt', 'notes.txt')""",
    "symbolic link": """
os.symlink('data/deep', 'short'); open('short/x.txt', 'a').write('more')
assert text('data/deep/x.txt') == 'x\\nmore' and os.readlink('short') == 'data/deep' and names('short')""",
    "link in place of a file": """
os.remove('notes.txt'); os.symlink('log.txt', 'notes.txt'); open('notes.txt', 'a').write('more')
assert text('log.txt') == 'started\\nmore' and text('link.txt') == text('log.txt')""",
    "latest link": """
for step in range(3):
    Path(f'step{step}.pt').write_text(str(step)); os.symlink(f'step{step}.pt', 'tmp'); os.replace('tmp', 'latest')
assert text('latest') == '2'""",
    "folders": """
os.mkdir('one', 0o750); os.makedirs('one/two'); os.rmdir('one/two'); os.rmdir('empty')
assert names('one') == [] and not os.path.exists('empty')
try: os.rmdir('data')
except OSError as error: print(error.errno)""",
    "folder in place of a file": """
os.remove('notes.txt'); os.mkdir('notes.txt'); open('notes.txt/in', 'w').close(); assert names('notes.txt') == ['in']""",
    "file in place of a folder": """
shutil.rmtree('data'); open('data', 'w').write('file'); assert text('data_link') == 'file'
os.remove('data'); assert 'data' not in names()""",
    "folder removed and made again": """
shutil.rmtree('data'); os.makedirs('data/deep'); assert names('data') == ['deep'] and names('data/deep') == []
open('data/deep/new', 'w').close(); assert names('data_link/deep') == ['new']""",
    "pipes and sockets": """
import socket
os.mkfifo('pipe'); server = socket.socket(socket.AF_UNIX); server.bind('socket'); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect('socket'); client.send(b'hello')
assert server.accept()[0].recv(5) == b'hello' and {'pipe', 'socket'} <= {*names()}
os.remove('pipe'); os.remove('socket')""",
    "mode and times": """
os.chmod('notes.txt', 0o600); os.chmod('data', 0o700); os.utime('log.txt', (5, 6))
os.utime('link.txt', (7, 8), follow_symlinks=False); os.chown('notes.txt', -1, -1)
assert os.stat('log.txt').st_mtime == 6 and os.lstat('link.txt').st_mtime == 8
print(oct(os.stat('notes.txt').st_mode), oct(os.stat('data').st_mode), os.stat('notes.txt').st_mtime)""",
    "truncate": """
os.truncate('weights.bin', 10); os.truncate('log.txt', 100); assert os.path.getsize('weights.bin') == 10
assert Path('log.txt').read_bytes() == b'started\\n' + b'\\0' * 92""",
    "names with odd letters": """
open('säule.txt', 'a').write('ü'); os.rename('name with space.txt', 'a\\nb'); open(b'\\xff\\xfe', 'w').write('x')
assert text('a\\nb') == 'space\\n' and b'\\xff\\xfe' in os.listdir(b'.'); os.remove(b'\\xff\\xfe')""",
    "errors": """
for call in (lambda: os.mkdir('data'), lambda: os.unlink('data'), lambda: open('data', 'w'), lambda: open('notes.txt/x'),
             lambda: os.rmdir('notes.txt'), lambda: open('none/x', 'w'), lambda: os.link('none', 'x'),
             lambda: os.symlink('x', 'notes.txt'), lambda: os.mkdir('none/x'), lambda: open(''),
             lambda: os.unlink('none'), lambda: open('x' * 300, 'w'), lambda: os.listdir('notes.txt'),
             lambda: os.readlink('notes.txt'), lambda: os.chmod('none', 0), lambda: open('notes.txt/', 'w')):
    try: call()
    except OSError as error: print(type(error).__name__, error.errno)
    else: raise AssertionError
os.symlink('loop', 'loop')
try: open('loop', 'w')
except OSError as error: print(error.errno)""",
}

LIBRARIES = {
    "pathlib": """
Path('notes.txt').write_text('new'); Path('log.txt').rename('renamed'); Path('weights.bin').unlink()
Path('t').touch(); Path('p').mkdir(); Path('data/a.csv').replace('p/a.csv')
print(sorted(map(str, Path().rglob('*')))); print(sorted(map(str, Path('data').glob('*/*.txt'))))""",
    "shutil": """
shutil.copy2('notes.txt', 'copy.txt'); shutil.copytree('data', 'data2'); shutil.move('data', 'empty')
shutil.rmtree('data2/deep'); assert names('empty/data/deep') == ['deeper', 'x.txt'] and names('data2') == ['a.csv', 'b.csv']
assert os.stat('copy.txt').st_mtime == os.stat('notes.txt').st_mtime""",
    "remove everything": """
for name in names():
    shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.remove(name)
assert names() == [] and [*os.scandir()] == []""",
    "tempfile": """
import tempfile
fd, path = tempfile.mkstemp(dir='.'); os.write(fd, b'temporary'); os.close(fd); os.replace(path, 'notes.txt')
with tempfile.NamedTemporaryFile(dir='data') as file: assert len(names('data')) == 4
with tempfile.TemporaryDirectory(dir='.') as folder: open(folder + '/x', 'w').close()
with tempfile.TemporaryFile(dir='.') as file: file.write(b'x')
assert text('notes.txt') == 'temporary' and len(names('data')) == 3""",
    "sqlite": """
import sqlite3
base = sqlite3.connect('runs.db'); base.execute("insert into runs values ('second', 0.4)"); base.commit()
base.execute('delete from runs where name = ?', ('first',)); base.commit()
assert [*base.execute('select name from runs')] == [('second',)]; base.close()""",
    "sqlite with a log": """
import sqlite3
base = sqlite3.connect('runs.db'); base.execute('pragma journal_mode=wal')
base.execute("insert into runs values ('second', 0.4)"); base.commit()
other = sqlite3.connect('runs.db'); assert len([*other.execute('select * from runs')]) == 2
other.close(); base.execute('pragma journal_mode=delete'); base.close(); print(names())""",
    "mmap": """
import mmap
with open('weights.bin', 'r+b') as file, mmap.mmap(file.fileno(), 0) as memory: memory[5:8] = b'new'; memory.flush()
assert Path('weights.bin').read_bytes()[5:8] == b'new'""",
    "numpy memmap": """
import numpy
array = numpy.memmap('weights.bin', dtype='uint8', mode='r+'); array[:3] = 7; array.flush(); del array
array = numpy.memmap('new.bin', dtype='f4', mode='w+', shape=(4,)); array[:] = 1; array.flush()
assert numpy.fromfile('weights.bin', 'u1')[:3].tolist() == [7] * 3 and os.path.getsize('new.bin') == 16""",
    "numpy files": """
import numpy
numpy.save('weights.npy', numpy.arange(3)); numpy.arange(4.0).tofile('weights.bin')
numpy.savetxt('data/a.csv', numpy.ones((2, 2)))
assert numpy.load('weights.npy').tolist() == [0, 1, 2] and os.path.getsize('weights.bin') == 32""",
    "zipfile": """
import zipfile
with zipfile.ZipFile('archive.zip', 'a') as archive: archive.writestr(zipfile.ZipInfo('more.txt'), 'more')
with zipfile.ZipFile('archive.zip') as archive: archive.extractall('unpacked')
assert names('unpacked') == ['inside.txt', 'more.txt']""",
    "tarfile": """
import tarfile
with tarfile.open('data.tar', 'w') as archive: archive.add('data', filter=lambda info: info)
shutil.rmtree('data')
with tarfile.open('data.tar') as archive: archive.extractall('.'); print(sorted(archive.getnames()))
os.remove('data.tar'); assert names('data/deep') == ['deeper', 'x.txt']""",
    "gzip, pickle, json": """
import gzip, json, pickle
with gzip.GzipFile('log.txt', 'wb', mtime=0) as file: file.write(b'packed')
with open('notes.txt', 'wb') as file: pickle.dump([1, 2], file)
with open('data/a.csv', 'w') as file: json.dump({'a': 1}, file)
assert gzip.open('log.txt').read() == b'packed' and pickle.load(open('notes.txt', 'rb')) == [1, 2]""",
    "logging": """
import logging, logging.handlers
logging.basicConfig(filename='log.txt', format='%(message)s'); logging.warning('warned')
handler = logging.handlers.RotatingFileHandler('notes.txt', maxBytes=40, backupCount=2)
logging.getLogger().addHandler(handler)
for step in range(6): logging.warning('this is step %d', step)
print(names()); assert text('notes.txt.1') and text('log.txt').startswith('started\\nwarned')""",
    "csv and fileinput": """
import csv, fileinput
with open('data/a.csv', 'a', newline='') as file: csv.writer(file).writerow([5, 6])
for line in fileinput.input('notes.txt', inplace=True): print(line.upper(), end='')
assert text('notes.txt').startswith('FIRST') and text('data/a.csv').endswith('5,6\\n')""",
    "glob": """
import glob
open('data/c.csv', 'w').close(); os.remove('data/a.csv')
assert sorted(glob.glob('data/*.csv')) == ['data/b.csv', 'data/c.csv']""",
    "shelve": """
import shelve, dbm.dumb
base = shelve.Shelf(dbm.dumb.open('shelf')); base['a'] = [1]; base.close()
assert shelve.Shelf(dbm.dumb.open('shelf'))['a'] == [1]""",
    "torch.save": """
# needs torch
import torch
state = {'w': torch.ones(4)}
torch.save(state, 'weights.bin'); torch.save(state, 'last.tmp'); os.replace('last.tmp', 'last.pt')
assert torch.load('last.pt')['w'].sum() == 4 and torch.load('weights.bin')['w'].sum() == 4
os.remove('weights.bin'); os.remove('last.pt')""",
    "attributes": """
try: os.setxattr('notes.txt', 'user.test', b'value'); assert os.getxattr('notes.txt', 'user.test') == b'value'
except OSError as error: print(error.errno)""",
    "locks": """
import fcntl
with open('lock', 'w') as lock: fcntl.flock(lock, fcntl.LOCK_EX); open('log.txt', 'a').write('locked')
fd = os.open('data', os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX); os.close(fd); assert text('log.txt').endswith('locked')""",
    "copying by the kernel": """
a = os.open('weights.bin', os.O_RDONLY); b = os.open('copied.bin', os.O_WRONLY | os.O_CREAT, 0o644)
os.sendfile(b, a, 0, 1000); c = os.open('notes.txt', os.O_RDWR)
assert os.copy_file_range(a, c, 500) == 500 and os.stat('copied.bin').st_size == 1000
assert os.stat('notes.txt').st_size == 500""",
}

WAYS: dict[str, str] = {
    name: PREAMBLE + source
    for part in (OPENING, NAMING, LIBRARIES, PROCESSES)
    for name, source in part.items()
}


def missing(way: str) -> list[str]:
    """What the way needs and this machine does not have."""
    needs = re.findall(r"^# needs (\S+)$", way, re.MULTILINE)
    return [
        need
        for need in needs
        if not (Path(need).exists() if "/" in need else importlib.util.find_spec(need))
    ]
