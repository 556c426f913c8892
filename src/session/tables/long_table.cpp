#include "session/tables/long_table.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

#include "session/tables/run_tables.h"

namespace gpumemprof {
namespace {

// Few enough that a batch takes some MiB, enough that readers spend no time between batches.
constexpr std::size_t kBatchRows = 65'536;

struct NobodyReads {};

TableShow shows_only(arrow::TableKind kind, std::function<void(TablePart& part)> part) {
  return {[kind](std::string_view name) { return arrow::kind_named(name) == kind; },
          std::move(part), [](const SmallTable& /*table*/) {}};
}

std::size_t rows_in(const TablePart& part) {
  return part.rows == nullptr ? part.count : part.rows->size();
}

// Whoever reads a recording gets its windows one after the other; whoever reads a table asks for
// them. So a thread of its own reads, and waits until the next batch is asked for.
class WindowBatches final : public arrow::BatchSource {
 public:
  WindowBatches(std::string path, arrow::TableKind kind)
      : path_(std::move(path)), kind_(kind), thread_([this] { run(); }) {}
  ~WindowBatches() override {
    {
      const std::scoped_lock lock(mutex_);
      is_closed_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  bool next(ArrowArray* out) override {
    std::unique_lock lock(mutex_);
    if (is_done_ && failure_.empty()) return false;
    wanted_ = out;
    changed_.notify_all();
    changed_.wait(lock, [&] { return wanted_ == nullptr || is_done_; });
    if (!failure_.empty()) throw std::runtime_error(failure_);
    const bool is_filled = wanted_ == nullptr;
    wanted_ = nullptr;
    return is_filled;
  }

 private:
  void run() {
    std::string failure;
    try {
      wait_until_wanted();
      failure = read();
    } catch (const NobodyReads&) {
      failure.clear();  // Nobody asks why it ended.
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const std::scoped_lock lock(mutex_);
    is_done_ = true;
    failure_ = std::move(failure);
    changed_.notify_all();
  }

  // Why it failed; empty if it did not.
  std::string read() {
    Result<std::unique_ptr<TabledRun>> opened = TabledRun::open(path_);
    if (!opened) return opened.error().sentence();
    run_ = std::move(opened).value();
    const Status shown =
        show_tables(*run_, {}, shows_only(kind_, [this](TablePart& part) { hand_over(part); }));
    return shown ? "" : shown.error().sentence();
  }

  void hand_over(TablePart& part) {
    if (rows_in(part) == 0) return;
    // The batches refer to the texts of the store.
    const std::shared_ptr<const Store> store(run_, &part.store);
    const arrow::CopiedRows columns(store, part.kind, part.device, std::move(part.other));
    std::vector<std::uint32_t> range;
    if (part.rows == nullptr) {
      range.resize(part.count);
      std::iota(range.begin(), range.end(), static_cast<std::uint32_t>(part.first));
    }
    std::span<const std::uint32_t> left = part.rows == nullptr ? range : *part.rows;
    while (!left.empty()) {
      const std::size_t count = std::min(left.size(), kBatchRows);
      ArrowArray* const to = wait_until_wanted();
      columns.export_rows(left.first(count), to);
      left = left.subspan(count);
      const std::scoped_lock lock(mutex_);
      wanted_ = nullptr;
      changed_.notify_all();
    }
  }

  ArrowArray* wait_until_wanted() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return wanted_ != nullptr || is_closed_; });
    if (is_closed_) throw NobodyReads{};
    return wanted_;
  }

  std::string path_;
  arrow::TableKind kind_;
  std::shared_ptr<TabledRun> run_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ArrowArray* wanted_ = nullptr;
  bool is_closed_ = false;
  bool is_done_ = false;
  std::string failure_;
  std::thread thread_;  // last: it uses all of them
};

}  // namespace

std::size_t LongTable::rows() const {
  const std::scoped_lock lock(counting_);
  if (rows_) return *rows_;
  Result<std::unique_ptr<TabledRun>> run = TabledRun::open(path_);
  if (!run) throw std::runtime_error(run.error().sentence());
  std::size_t rows = 0;
  const auto count = [&](TablePart& part) { rows += rows_in(part); };
  const Status shown = show_tables(*run.value(), {}, shows_only(kind(), count));
  if (!shown) throw std::runtime_error(shown.error().sentence());
  rows_ = rows;
  return rows;
}

std::unique_ptr<arrow::BatchSource> LongTable::batches() const {
  return std::make_unique<WindowBatches>(path_, kind());
}

}  // namespace gpumemprof
