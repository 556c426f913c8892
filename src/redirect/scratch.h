// The scratch folder: where what the program writes goes, and what all its processes share.
//
//   written/PATH   what was written, under its virtual path
//   removed/PATH   an empty file: the real PATH, and all below it, is hidden
//   listings/KEY/PATH  a folder with the names that PATH shows, made when it was opened
//   temporary/     files on their way to their place
//   shared/NAME    an object of /dev/shm that the program made itself
//   origin         not a folder: a link in `written` to origin/PATH means the real file PATH,
//   renamed state          mapped by all processes: a counter, and which paths may have something
//   of ours refused        a line for each program that was not started
//
// The scratch folder is named by the environment (GPUMEMPROF_REDIRECT); without it, nothing is
// active. Read once, without allocating, at the first call of whichever replaced function comes
// first.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "redirect/path_text.h"

namespace gpumemprof::redirect {

struct SharedState {
  static constexpr uint64_t kBits = uint64_t{1} << 22U;
  // How often a name or its metadata changed; 0: everything is as it really is.
  std::atomic<uint64_t> changes;
  std::atomic<uint64_t> next_number;
  // How often something changed that the way to other files leads through: a folder or a link.
  std::atomic<uint64_t> folder_changes;
  // One bit for each hash of a path that has something of ours at it or below it.
  std::atomic<uint64_t> touched[kBits / 64];
};

uint64_t path_hash(std::string_view path);

class Scratch {
 public:
  // Whether anything is redirected at all.
  [[nodiscard]] bool is_active() const { return is_active_; }
  [[nodiscard]] bool lets_static_run() const { return lets_static_run_; }
  [[nodiscard]] std::string_view folder() const { return folder_.view(); }
  [[nodiscard]] std::string_view real_prefixes() const { return real_prefixes_.view(); }
  [[nodiscard]] std::string_view library() const { return library_.view(); }

  // The three rooms for a virtual path, and "temporary" for a new file.
  void written(std::string_view path, PathText& out) const { below("/written", path, out); }
  void removed(std::string_view path, PathText& out) const { below("/removed", path, out); }
  void temporary(PathText& out) const;
  [[nodiscard]] uint64_t new_number() const { return state_->next_number.fetch_add(1) + 1; }

  // The virtual path of one that the kernel reports: /S/written/a is /a. False if it is no such
  // path.
  bool to_virtual(PathText& path) const;

  // What is never redirected: devices, processes, the scratch folder, and GPUMEMPROF_REDIRECT_REAL.
  [[nodiscard]] bool is_real(std::string_view path) const;

  [[nodiscard]] uint64_t changes() const { return state_->changes.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t folder_changes() const {
    return state_->folder_changes.load(std::memory_order_acquire);
  }
  void note_folder_change() const {
    state_->folder_changes.fetch_add(1, std::memory_order_acq_rel);
  }
  static uint64_t bit_of(uint64_t hash) { return (hash ^ (hash >> 32U)) % SharedState::kBits; }
  [[nodiscard]] bool is_touched_bit(uint64_t bit) const {
    return ((state_->touched[bit / 64].load(std::memory_order_acquire) >> (bit % 64)) & 1U) != 0;
  }
  [[nodiscard]] bool may_be_touched(std::string_view path) const {
    return is_touched_bit(bit_of(path_hash(path)));
  }
  // Before something of ours is put at this path.
  void touch(std::string_view path) const;

  void initialize();

 private:
  void below(std::string_view room, std::string_view path, PathText& out) const;
  void map_state();

  bool is_active_ = false;
  bool lets_static_run_ = false;
  SharedState* state_ = nullptr;
  PathText folder_;
  PathText real_prefixes_;
  PathText library_;
};

const Scratch& scratch();

// One process and thread at a time changes names. Signals wait, so that a handler cannot wait for
// its own thread.
class ChangeLock {
 public:
  ChangeLock();
  ChangeLock(const ChangeLock&) = delete;
  ChangeLock& operator=(const ChangeLock&) = delete;
  ~ChangeLock();

 private:
  int fd_;
  uint64_t signals_ = 0;
};

}  // namespace gpumemprof::redirect
