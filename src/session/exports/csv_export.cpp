#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "report/csv/csv_file.h"
#include "session/exports/exports.h"
#include "session/tables/run_tables.h"

namespace gpumemprof {
namespace {

Error no_such_table(const std::string& name) {
  std::string known;
  for (const std::string_view one : kTableNames)
    known += (known.empty() ? "" : ", ") + std::string(one);
  return {ErrorCode::usage, "there is no table '" + name + "'", "", "the tables are " + known};
}

// The folder for all tables; nothing is left of it if they cannot be written.
class TableFolder {
 public:
  static Result<std::unique_ptr<TableFolder>> create(const std::string& path,
                                                     FileSink::Existing existing) {
    std::error_code failed;
    const auto found = std::filesystem::status(path, failed);
    if (std::filesystem::exists(found) && !std::filesystem::is_directory(found))
      return Error{ErrorCode::usage, "is a file, and all tables need a folder", path,
                   "name another, or one table: --table allocations"};
    const bool is_new = std::filesystem::create_directory(path, failed);
    if (failed)
      return Error{ErrorCode::environment, "cannot be created: " + failed.message(), path,
                   "name a folder that does not exist, in one that does"};
    if (!is_new && existing == FileSink::Existing::refuse)
      return Error{ErrorCode::usage, "already exists", path, "add -f, or name another folder"};
    return std::unique_ptr<TableFolder>(new TableFolder(path, is_new));
  }
  TableFolder(const TableFolder&) = delete;
  TableFolder& operator=(const TableFolder&) = delete;
  ~TableFolder() {
    std::error_code not_empty;
    if (is_new_ && !is_kept_) std::filesystem::remove(path_, not_empty);
  }
  void keep() { is_kept_ = true; }

 private:
  TableFolder(std::string path, bool is_new) : path_(std::move(path)), is_new_(is_new) {}

  std::string path_;
  bool is_new_;
  bool is_kept_ = false;
};

using CsvFiles = std::map<std::string_view, std::unique_ptr<CsvFile>>;

Result<CsvFiles> open_files(const ExportOptions& options, const std::string& path,
                            FileSink::Existing existing) {
  CsvFiles files;
  for (const std::string_view name : kTableNames) {
    if (!options.table.empty() && options.table != name) continue;
    const std::string file_path =
        options.table.empty() ? path + "/" + std::string(name) + ".csv" : path;
    auto file = FileSink::create(file_path, existing, FileSink::Appears::when_closed);
    if (!file) return file.error();
    files.emplace(name, std::make_unique<CsvFile>(std::move(file).value()));
  }
  if (files.empty()) return no_such_table(options.table);
  return files;
}

}  // namespace

Status write_csv(TabledRun& run, const ExportOptions& options, const std::string& path,
                 FileSink::Existing existing) {
  std::unique_ptr<TableFolder> folder;
  if (options.table.empty()) {
    Result<std::unique_ptr<TableFolder>> created = TableFolder::create(path, existing);
    if (!created) return created.error();
    folder = std::move(created).value();
  }
  Result<CsvFiles> files = open_files(options, path, existing);
  if (!files) return files.error();
  Status shown = show_tables(
      run, options.device,
      {[&](std::string_view name) { return files.value().contains(name); },
       [&](TablePart& part) {
         CsvFile& file = *files.value().at(part.name);
         if (part.rows != nullptr)
           file.add(part.store, part.kind, part.device, std::move(part.other), part.rows);
         else
           file.add_range(part.store, part.kind, part.device, std::move(part.other), part.first,
                          part.count);
       },
       [&](const SmallTable& table) { files.value().at(table.name)->add(table); }});
  if (!shown) return shown;
  for (auto& [name, file] : files.value()) {
    if (const auto kind = arrow::kind_named(name)) file->add_header(*kind);
    const Status finished = file->finish();
    if (!finished) return finished;
  }
  if (folder != nullptr) folder->keep();
  return Done{};
}

}  // namespace gpumemprof
