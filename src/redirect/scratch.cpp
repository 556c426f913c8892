#include "redirect/scratch.h"

#include <dlfcn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>

#include "redirect/kernel.h"
#include "redirect/place.h"

namespace gpumemprof::redirect {
namespace {

// Never destroyed: other destructors may still open files after ours would have run.
alignas(Scratch) unsigned char the_scratch[sizeof(Scratch)];
std::atomic<int> initialization{0};  // 1: under way, 2: done

// Where nothing can be shared: then every path is looked up.
SharedState private_state;

uint64_t hash_step(uint64_t hash, char byte) {
  return (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
}
constexpr uint64_t kHashStart = 0xcbf29ce484222325U;

void make_folder(std::string_view scratch_folder, std::string_view name) {
  PathText path(scratch_folder);
  path.append(name);
  kernel(SYS_mkdirat, AT_FDCWD, path.c_str(), 0700);
}

__attribute__((constructor)) void initialize_early() { scratch(); }

}  // namespace

uint64_t path_hash(std::string_view path) {
  uint64_t hash = kHashStart;
  for (const char byte : path) {
    hash = hash_step(hash, byte);
  }
  return hash;
}

const Scratch& scratch() {
  auto* instance = std::launder(reinterpret_cast<Scratch*>(the_scratch));
  if (initialization.load(std::memory_order_acquire) == 2) [[likely]] {
    return *instance;
  }
  int expected = 0;
  if (initialization.compare_exchange_strong(expected, 1)) {
    new (the_scratch) Scratch;
    instance->initialize();
    initialization.store(2, std::memory_order_release);
  }
  while (initialization.load(std::memory_order_acquire) != 2) {
    kernel(SYS_sched_yield);
  }
  return *instance;
}

void Scratch::initialize() {
  const char* named = std::getenv("GPUMEMPROF_REDIRECT");
  if (named == nullptr || named[0] == '\0') {
    return;
  }
  // Without links, since that is how the kernel reports paths below it.
  const Descriptor folder(kernel_open(named, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (named[0] != '/' || !folder.is_open()) {
    // The prediction may be over, and a program that it left behind starts another one.
    constexpr std::string_view kWhy =
        "gpumemprof: the folder for redirected writes is gone, so this program is not started: "
        "it would change real files\n";
    kernel(SYS_write, STDERR_FILENO, kWhy.data(), kWhy.size());
    kernel(SYS_exit_group, 126);
  }
  PathText link;
  descriptor_link(folder.get(), link);
  const long size =
      kernel(SYS_readlinkat, AT_FDCWD, link.c_str(), folder_.data(), PathText::capacity());
  if (size > 0) {
    folder_.resize(static_cast<size_t>(size));
  } else {
    folder_.assign(named);
  }
  if (const char* prefixes = std::getenv("GPUMEMPROF_REDIRECT_REAL")) {
    real_prefixes_.assign(prefixes);
  }
  const char* lets_static = std::getenv("GPUMEMPROF_REDIRECT_LETS_STATIC");
  lets_static_run_ = lets_static != nullptr && lets_static[0] == '1';
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&initialize_early), &self) != 0 && self.dli_fname != nullptr) {
    library_.assign(self.dli_fname);
  }
  for (const char* room : {"/written", "/removed", "/listings", "/temporary", "/shared"}) {
    make_folder(folder_.view(), room);
  }
  map_state();
  is_active_ = true;
}

void Scratch::map_state() {
  PathText path(folder_.view());
  path.append("/state");
  const Descriptor file(kernel_open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.is_open() && kernel(SYS_ftruncate, file.get(), sizeof(SharedState)) == 0) {
    const long mapped = kernel(SYS_mmap, nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE,
                               MAP_SHARED, file.get(), 0);
    if (mapped > 0 || mapped < -4095) {
      state_ = reinterpret_cast<SharedState*>(mapped);  // NOLINT(performance-no-int-to-ptr)
      return;
    }
  }
  state_ = &private_state;
  state_->changes = 1;
  for (auto& word : state_->touched) {
    word = ~uint64_t{0};
  }
}

void Scratch::below(std::string_view room, std::string_view path, PathText& out) const {
  out.assign(folder_.view());
  out.append(room);
  out.append(path);
}

void Scratch::temporary(PathText& out) const {
  out.assign(folder_.view());
  out.append("/temporary/");
  out.append_hex(new_number());
}

bool Scratch::to_virtual(PathText& path) const {
  if (!is_below(path.view(), folder_.view())) {
    return false;
  }
  std::string_view rest = part_of(path.view(), folder_.size());
  if (is_below(rest, "/written")) {
    rest.remove_prefix(8);
  } else if (is_below(rest, "/listings") && rest.size() > 10) {
    const size_t slash = rest.find('/', 10);
    rest = slash == std::string_view::npos ? "" : part_of(rest, slash);
  } else {
    return false;
  }
  PathText found(rest);
  path = found;
  return true;
}

bool Scratch::is_real(std::string_view path) const {
  if (is_below(path, folder_.view()) || is_below(path, "/proc") || is_below(path, "/sys")) {
    return true;
  }
  if (is_below(path, "/dev")) {
    constexpr std::string_view kShared = "/dev/shm";
    if (!is_below(path, kShared)) {
      return true;
    }
    if (path.size() > kShared.size()) {
      // What the program made there is shared memory, and really there.
      PathText mark(folder_.view());
      mark.append("/shared");
      mark.append(part_of(path, kShared.size()));
      struct stat status{};
      return kernel_lstat(mark.c_str(), status) == 0;
    }
    return false;
  }
  std::string_view left = real_prefixes_.view();
  while (!left.empty()) {
    const size_t colon = left.find(':');
    std::string_view prefix = part_of(left, 0, colon);
    while (prefix.size() > 1 && prefix.back() == '/') {
      prefix.remove_suffix(1);
    }
    if (!prefix.empty() && prefix.front() == '/' && is_below(path, prefix)) {
      return true;
    }
    left = colon == std::string_view::npos ? "" : part_of(left, colon + 1);
  }
  return false;
}

void Scratch::touch(std::string_view path) const {
  uint64_t hash = kHashStart;
  const auto set = [&] {
    const uint64_t bit = bit_of(hash);
    state_->touched[bit / 64].fetch_or(uint64_t{1} << (bit % 64), std::memory_order_acq_rel);
  };
  // Every folder on the way too: each of them has something of ours below it.
  for (const char byte : path) {
    if (byte == '/') {
      set();
    }
    hash = hash_step(hash, byte);
  }
  set();
  state_->changes.fetch_add(1, std::memory_order_acq_rel);
}

ChangeLock::ChangeLock() : fd_(-1) {
  const uint64_t all = ~uint64_t{0};
  kernel(SYS_rt_sigprocmask, SIG_SETMASK, &all, &signals_, sizeof(all));
  PathText path(scratch().folder());
  path.append("/state");
  fd_ = static_cast<int>(kernel_open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd_ >= 0) {
    kernel(SYS_flock, fd_, LOCK_EX);
  }
}

ChangeLock::~ChangeLock() {
  if (fd_ >= 0) {
    // Not by closing alone: a child that was forked meanwhile has the file open too.
    kernel(SYS_flock, fd_, LOCK_UN);
    kernel(SYS_close, fd_);
  }
  kernel(SYS_rt_sigprocmask, SIG_SETMASK, &signals_, nullptr, sizeof(signals_));
}

}  // namespace gpumemprof::redirect
