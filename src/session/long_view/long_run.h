// LongRun: a recording that is too long for memory, opened for viewing through its index.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/long_view/long_device.h"
#include "session/long_view/work_folder.h"

namespace gpumemprof {

class LongRun {
 public:
  // What its stretches may take together.
  static constexpr std::size_t kMostStretchBytes = std::size_t{400} << 20U;

  // `indexed`: the file that the index lies beside, if that is not the recording itself but a link
  // to it or a copy, in `folder`.
  static Result<std::shared_ptr<const LongRun>> open(const std::string& recording,
                                                     const std::string& indexed,
                                                     std::unique_ptr<WorkFolder> folder,
                                                     std::size_t most_devices);
  LongRun(const LongRun&) = delete;
  LongRun& operator=(const LongRun&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // The file that the index lies beside: the recording, or a link to it or a copy.
  [[nodiscard]] const std::string& indexed_path() const { return indexed_path_; }
  // As much of the file as was indexed.
  [[nodiscard]] std::uint64_t read_bytes() const { return read_bytes_; }
  [[nodiscard]] const Store& store() const { return index_->store(); }
  // About the peak.
  [[nodiscard]] const Overview& overview() const { return overview_; }
  [[nodiscard]] const std::vector<std::unique_ptr<LongDevice>>& devices() const { return devices_; }

 private:
  LongRun() : stretches_(kMostStretchBytes) {}

  std::string path_;
  std::string indexed_path_;
  std::uint64_t read_bytes_ = 0;
  std::unique_ptr<WorkFolder> folder_;
  std::unique_ptr<RunIndex> index_;
  Overview overview_;
  mutable std::mutex reading_;  // the index may be read by one thread at a time
  mutable StretchCache stretches_;
  std::vector<std::unique_ptr<LongDevice>> devices_;
};

}  // namespace gpumemprof
