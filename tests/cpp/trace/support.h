// What these tests share: temporary files, a recording with a bit of everything, and a text of
// everything a store holds, by value, so that two recordings are equal when their texts are
// equal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace gpumemprof::test {

class TempFolder {
 public:
  TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder();
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

using Bytes = std::vector<std::uint8_t>;

Bytes read_bytes(const std::string& path);
void write_bytes(const std::string& path, const Bytes& bytes);

// Opens without replacing anything except what the same test created.
std::unique_ptr<TraceWriter> open_writer(const std::string& path, TraceOptions options = {},
                                         const Origin& origin = {});

// Two devices, every action, every optional column, a state at both edges, marks, facts; `between`
// is called where a recorder would flush.
void add_a_bit_of_everything(EventSink& sink, const std::function<void()>& between = [] {});
// All of it as a closed file.
Bytes a_bit_of_everything();

struct Opened {
  std::unique_ptr<Store> store;  // null if the file was refused
  std::string refusal;
};
Opened open_bytes(const Bytes& bytes);

// Everything except the fact of how it ended and the cut.
std::string describe(const Store& store);
std::string describe_events(const Store& store);
std::string ended(const Store& store);

}  // namespace gpumemprof::test
