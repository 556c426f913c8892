#include "replay/fixture.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "ingest/torch_snapshot.h"

namespace gpumemprof::test {
namespace {

std::filesystem::path folder() { return std::filesystem::path(GPUMEMPROF_TEST_DATA) / "snapshots"; }

}  // namespace

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Fixture load_fixture(const std::string& name) {
  Fixture fixture{std::make_unique<Store>(), {}};
  auto snapshot = TorchSnapshot::open((folder() / (name + ".pickle.gz")).string());
  if (!snapshot) throw std::runtime_error(snapshot.error().sentence());
  const Status delivered = snapshot.value()->deliver(*fixture.store);
  if (!delivered) throw std::runtime_error(delivered.error().sentence());
  std::ifstream(folder() / (name + ".json")) >> fixture.truth;
  return fixture;
}

}  // namespace gpumemprof::test
