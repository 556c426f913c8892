"""The ways of writing_ways.py that start other programs, or reach the C library directly."""

from __future__ import annotations

PROCESSES = {
    "shell": """
sh('echo new >notes.txt; echo more >>log.txt; : >weights.bin; cat notes.txt log.txt; ls -A; ls -A data')
assert text('notes.txt') == 'new\\n' and os.path.getsize('weights.bin') == 0""",
    "coreutils": """
sh('cp notes.txt copied; cp -a data data2; mv log.txt moved; mv data/deep .; rm weights.bin; mkdir -p a/b/c; touch a/b/x')
sh('ln -s a link2; ln notes.txt hard; rmdir empty; chmod 600 notes.txt; truncate -s 3 copied; find . | sort')
assert names('deep') == ['deeper', 'x.txt'] and names('data') == ['a.csv', 'b.csv']""",
    "rm -rf": """
sh('rm -rf data *.txt; ls -A; rm -r empty; mkdir empty; echo x >empty/x; rm -rf empty')
assert 'data' not in names() and 'empty' not in names()""",
    "sed -i": """
sh("sed -i 's/first/last/' notes.txt; sed -i.bak s/started/ended/ log.txt")
assert text('notes.txt').startswith('last') and text('log.txt.bak') == 'started\\n'""",
    "tar": """
sh('tar cf all.tar data notes.txt; rm -r data; tar xf all.tar; tar tf all.tar | sort; rm all.tar')
assert text('data/deep/x.txt') == 'x\\n'""",
    "dd, install, split": """
sh('dd if=/dev/zero of=weights.bin bs=10 seek=5 count=1 conv=notrunc 2>/dev/null; install -m 640 notes.txt installed')
sh('split -l 1 notes.txt part.; tee -a log.txt <notes.txt >/dev/null; cmp installed notes.txt')
assert names('.').count('part.aa') == 1 and os.path.getsize('weights.bin') == 65536""",
    "perl": """
# needs /usr/bin/perl
run('perl', '-i', '-pe', 's/first/last/', 'notes.txt'); run('perl', '-e', 'unlink "log.txt"; mkdir "p"; rename "weights.bin", "p/w"')
assert names('p') == ['w'] and text('notes.txt').startswith('last')""",
    "gzip": """
sh('gzip -n weights.bin; ls; gunzip weights.bin.gz; gzip -nk notes.txt; zcat notes.txt.gz')
assert os.path.getsize('weights.bin') == 65536""",
    "Python with an environment of its own": """
run(sys.executable, '-c', 'open("notes.txt", "w").write("new")', env={})
assert text('notes.txt') == 'new'""",
    "Python in another folder": """
run(sys.executable, '-c', 'open("new", "w").write("new"); print(__import__("os").listdir())', cwd='empty')
assert text('empty/new') == 'new'; os.mkdir('made'); run('touch', 'x', cwd='made'); assert names('made') == ['x']""",
    "redirected output": """
with open('log.txt', 'w') as log: run('echo', 'hello', stdout=log)
with open('notes.txt') as notes: run('cat', stdin=notes)
assert text('log.txt') == 'hello\\n'""",
    "a script of the folder": "run('./tool.sh', 'one'); assert text('made_by_tool.txt') == 'tool\\n'",
    "a script that was written": """
open('made.py', 'w').write(f'#!{sys.executable}\\nimport os, sys\\nopen("out.txt", "w").write(sys.argv[0] + sys.argv[1])\\n')
os.chmod('made.py', 0o755); run('./made.py', 'x'); assert text('out.txt') == './made.pyx'
open('plain', 'w').write('echo plain >plain.txt\\n'); os.chmod('plain', 0o755); sh('./plain'); os.remove('made.py')
os.remove('out.txt'); assert text('plain.txt') == 'plain\\n'""",
    "a module that was written": """
os.mkdir('package'); open('package/__init__.py', 'w').write('value = 3'); sys.path.insert(0, '.')
sys.dont_write_bytecode = True
import package; assert package.value == 3 and os.path.exists(package.__file__)""",
    "fork": """
child = os.fork()
if child == 0: open('notes.txt', 'w').write('child'); os.remove('log.txt'); os._exit(0)
os.waitpid(child, 0); assert text('notes.txt') == 'child' and not os.path.exists('log.txt')""",
    "spawn": """
child = os.posix_spawn('/bin/sh', ['sh', '-c', 'echo spawned'], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 1, 'notes.txt', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)])
os.waitpid(child, 0); assert text('notes.txt') == 'spawned\\n'
child = os.posix_spawnp('touch', ['touch', 'touched'], {'PATH': os.environ['PATH']}); os.waitpid(child, 0)
assert 'touched' in names(); os.environ.clear(); os.system('/bin/echo x >>log.txt'); assert text('log.txt').endswith('x\\n')
os.popen('/bin/rm weights.bin').close(); assert not os.path.exists('weights.bin')""",
    "exec": """
if os.fork() == 0: os.execlp('sh', 'sh', '-c', 'echo a >a')
os.wait()
if os.fork() == 0: os.execve('/bin/sh', ['sh', '-c', 'echo b >b'], {})
os.wait(); assert text('a') == 'a\\n' and text('b') == 'b\\n'""",
    "multiprocessing": """
import multiprocessing
def work(name):
    Path(name).write_text(name); os.remove(name.replace('new', 'notes.txt') if name == 'new' else 'log.txt')
for context in ('fork',):
    pool = multiprocessing.get_context(context).Pool(2); pool.map(work, ['new', 'other']); pool.close(); pool.join()
assert {'new', 'other'} <= {*names()} and not {'notes.txt', 'log.txt'} & {*names()}""",
    "multiprocessing by spawning": """
import multiprocessing, multiprocessing.shared_memory, shutil
context = multiprocessing.get_context('spawn'); queue = context.Queue()
child = context.Process(target=shutil.copyfile, args=('notes.txt', 'log.txt')); child.start(); child.join()
memory = multiprocessing.shared_memory.SharedMemory(create=True, size=10); memory.buf[0] = 3
other = multiprocessing.shared_memory.SharedMemory(memory.name); assert other.buf[0] == 3
other.close(); memory.close(); memory.unlink(); assert text('log.txt') == text('notes.txt')""",
    "threads": """
from concurrent.futures import ThreadPoolExecutor
def work(number):
    open('log.txt', 'a').write('line\\n'); os.makedirs('shared/place', exist_ok=True)
    Path(f'shared/place/{number}').write_text('x'); os.replace(f'shared/place/{number}', f'shared/{number}')
with ThreadPoolExecutor(8) as pool: [*pool.map(work, range(100))]
assert text('log.txt').count('line') == 100 and len(names('shared')) == 101 and names('shared/place') == []""",
    "many processes": """
processes = [subprocess.Popen(['sh', '-c', f'echo x >>log.txt; mkdir -p m/{n % 3}; echo {n} >m/{n % 3}/{n}; rm -f notes.txt']) for n in range(12)]
assert not any(process.wait() for process in processes)
assert text('log.txt').count('x') == 12 and len(names('m/0')) == 4 and 'notes.txt' not in names()""",
    "the C library": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True); libc.fopen.restype = libc.freopen.restype = ctypes.c_void_p
def stdio(name, mode, letters):
    file = ctypes.c_void_p(libc.fopen(name, mode)); assert file.value; libc.fputs(letters, file); libc.fclose(file)
stdio(b'notes.txt', b'w', b'one'); stdio(b'notes.txt', b'a', b'two'); stdio(b'notes.txt', b'r+', b'TW')
file = ctypes.c_void_p(libc.fopen(b'log.txt', b'r')); file = ctypes.c_void_p(libc.freopen(b'weights.bin', b'w', file))
libc.fputs(b'reopened', file); libc.fclose(file)
assert libc.creat(b'made', 0o600) > 0 and libc.rename(b'made', b'made2') == 0 and libc.remove(b'empty') == 0
assert libc.truncate(b'data/a.csv', ctypes.c_long(1)) == 0 and libc.symlink(b'x', b'sym') == 0
name = ctypes.create_string_buffer(b'tmpXXXXXX'); assert libc.mkstemp(name) > 0; os.rename(name.value, 'temporary')
assert text('notes.txt') == 'TWetwo' and text('weights.bin') == 'reopened'""",
    "system calls": """
import ctypes, platform
libc = ctypes.CDLL(None); call = libc.syscall
numbers = {'x86_64': (257, 263, 264, 258), 'aarch64': (56, 35, 38, 34)}[platform.machine()]
openat, unlinkat, renameat, mkdirat = numbers
fd = call(openat, -100, b'notes.txt', os.O_WRONLY | os.O_TRUNC, 0); os.write(fd, b'direct')
assert call(unlinkat, -100, b'log.txt', 0) == 0 and call(renameat, -100, b'weights.bin', -100, b'w') == 0
assert call(mkdirat, -100, b'direct', 0o755) == 0 and text('notes.txt') == 'direct'""",
    "C++": """
# needs /usr/bin/g++
open('program.cpp', 'w').write('''
#include <filesystem>
#include <fstream>
int main() {
  namespace fs = std::filesystem;
  std::ofstream("notes.txt") << "streamed"; std::ofstream("log.txt", std::ios::app) << "more";
  fs::create_directories("made/by/it"); fs::rename("weights.bin", "made/weights"); fs::remove_all("data/deep");
  fs::copy("data", "data2", fs::copy_options::recursive); fs::resize_file("made/weights", 7);
  std::fstream both(".hidden", std::ios::in | std::ios::out); both << "X"; both.close();
  int count = 0; for (auto& entry : fs::recursive_directory_iterator(".")) { (void)entry; ++count; }
  return count > 10 && fs::file_size("notes.txt") == 8 ? 0 : 1;
}''')
run('g++', '-std=c++17', '-O0', 'program.cpp', '-o', 'program'); run('./program'); os.remove('program')
os.remove('program.cpp'); assert text('.hidden') == 'Xidden\\n' and names('data') == ['a.csv', 'b.csv']""",
    "a library that was compiled": """
# needs /usr/bin/gcc
import ctypes
open('lib.c', 'w').write('int answer(void) { return 42; }'); run('gcc', '-shared', '-fPIC', 'lib.c', '-o', 'lib.so')
assert ctypes.CDLL('./lib.so').answer() == 42; os.remove('lib.so')""",
}
