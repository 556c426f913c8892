#include "report/profile/pprof.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <unordered_map>

#include "analysis/code/shown_file.h"
#include "base/printable.h"
#include "report/gzip/gzip.h"
#include "report/profile/moment_text.h"

namespace gpumemprof {
namespace {

// Field numbers of pprof's profile.proto.
enum class ProfileField : protozero::pbf_tag_type {
  sample_type = 1,
  sample = 2,
  location = 4,
  function = 5,
  string_table = 6,
  time_nanos = 9,
  period_type = 11,
  period = 12,
  comment = 13,
  default_sample_type = 14,
};
enum class ValueTypeField : protozero::pbf_tag_type { type = 1, unit = 2 };
enum class SampleField : protozero::pbf_tag_type { location_id = 1, value = 2, label = 3 };
enum class LabelField : protozero::pbf_tag_type { key = 1, str = 2 };
enum class LocationField : protozero::pbf_tag_type { id = 1, line = 4 };
enum class LineField : protozero::pbf_tag_type { function_id = 1, line = 2 };
enum class FunctionField : protozero::pbf_tag_type { id = 1, name = 2, filename = 4 };

template <typename Field>
constexpr protozero::pbf_tag_type tag(Field field) {
  return static_cast<protozero::pbf_tag_type>(field);
}

class PprofWriter {
 public:
  explicit PprofWriter(const Store& store) : store_(store) { text(""); }

  std::string write(const StackProfile& profile, const std::vector<AboutLine>& about) {
    write_types();
    for (const StackSample& sample : profile.samples) write_sample(sample);
    std::int64_t latest_ns = kUnknownTime;
    std::vector<std::int64_t> comments;
    for (const ProfiledMoment& moment : profile.moments) {
      latest_ns = std::max(latest_ns, moment.time_ns);
      comments.push_back(
          text(store_.device_name(moment.device) + ": in use " + moment_text(moment)));
    }
    for (const std::string& line : about_texts(about)) comments.push_back(text(line));
    if (latest_ns != kUnknownTime) profile_.add_int64(tag(ProfileField::time_nanos), latest_ns);
    profile_.add_packed_int64(tag(ProfileField::comment), comments.begin(), comments.end());
    profile_.add_int64(tag(ProfileField::default_sample_type), text("inuse_space"));
    for (const std::string_view one : ordered_)
      profile_.add_bytes(tag(ProfileField::string_table), one.data(), one.size());
    return std::move(out_);
  }

 private:
  // The number of a text in the string table.
  std::int64_t text(const std::string& value) {
    const auto [place, is_new] = texts_.try_emplace(value, texts_.size());
    if (is_new) ordered_.push_back(place->first);  // keys stay where they are
    return static_cast<std::int64_t>(place->second);
  }

  void write_type(ProfileField field, const char* type, const char* unit) {
    const std::int64_t type_text = text(type);
    const std::int64_t unit_text = text(unit);
    protozero::pbf_writer written(profile_, tag(field));
    written.add_int64(tag(ValueTypeField::type), type_text);
    written.add_int64(tag(ValueTypeField::unit), unit_text);
  }

  void write_types() {
    write_type(ProfileField::sample_type, "alloc_objects", "count");
    write_type(ProfileField::sample_type, "alloc_space", "bytes");
    write_type(ProfileField::sample_type, "inuse_objects", "count");
    write_type(ProfileField::sample_type, "inuse_space", "bytes");
    write_type(ProfileField::period_type, "space", "bytes");
    profile_.add_int64(tag(ProfileField::period), 1);  // every byte was counted
  }

  // A place that is no frame: "[no stack]".
  std::uint64_t named_location(const std::string& name) {
    const auto [place, is_new] = named_.try_emplace(name, 0);
    if (is_new) place->second = write_location(name, "", 0);
    return place->second;
  }

  std::uint64_t location(FrameId id) {
    if (id.index >= location_of_frame_.size()) location_of_frame_.resize(store_.frames().size(), 0);
    std::uint64_t& known = location_of_frame_[id.index];
    if (known == 0) {
      const Frame& frame = store_.frame(id);
      known = write_location(
          printable(store_.text(frame.name)),
          printable(shown_file(store_.text(frame.file), store_.program_folder())), frame.line);
    }
    return known;
  }

  std::uint64_t write_location(const std::string& name, const std::string& file,
                               std::uint32_t line) {
    const std::uint64_t id = ++locations_;
    const auto [function, is_new] = functions_.try_emplace({text(name), text(file)}, id);
    if (is_new) {
      protozero::pbf_writer written(profile_, tag(ProfileField::function));
      written.add_uint64(tag(FunctionField::id), id);
      written.add_int64(tag(FunctionField::name), function->first.first);
      // Without a system name: pprof takes one that equals the name for C++, and would shorten
      // "<module>" to nothing.
      written.add_int64(tag(FunctionField::filename), function->first.second);
    }
    protozero::pbf_writer written(profile_, tag(ProfileField::location));
    written.add_uint64(tag(LocationField::id), id);
    protozero::pbf_writer place(written, tag(LocationField::line));
    place.add_uint64(tag(LineField::function_id), function->second);
    place.add_int64(tag(LineField::line), line);
    return id;
  }

  // Innermost first, as pprof wants them.
  std::vector<std::uint64_t> locations_of(const StackSample& sample) {
    if (sample.stack.is_none()) return {named_location("[no stack]")};
    std::vector<std::uint64_t> locations;
    if (sample.is_backward) locations.push_back(named_location("[backward]"));
    for (const FrameId frame : store_.stacks().frames_of(sample.stack))
      locations.push_back(location(frame));
    return locations;
  }

  static void write_label(protozero::pbf_writer& sample, std::int64_t key, std::int64_t value) {
    protozero::pbf_writer label(sample, tag(SampleField::label));
    label.add_int64(tag(LabelField::key), key);
    label.add_int64(tag(LabelField::str), value);
  }

  void write_sample(const StackSample& sample) {
    const std::vector<std::uint64_t> locations = locations_of(sample);
    const auto number = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
    const std::int64_t values[] = {number(sample.alloc_objects), number(sample.alloc_bytes),
                                   number(sample.inuse_objects), number(sample.inuse_bytes)};
    std::vector<std::pair<std::int64_t, std::int64_t>> labels = {
        {text("device"), text(store_.device_name(sample.device))},
        {text("source"), text(std::string(memory_source_name(sample.source)))},
        {text("source_provenance"), text(sample.is_source_measured ? "measured" : "inferred")}};
    if (!sample.tag.is_none())
      labels.emplace_back(text("tag"), text(printable(store_.text(sample.tag))));
    protozero::pbf_writer written(profile_, tag(ProfileField::sample));
    written.add_packed_uint64(tag(SampleField::location_id), locations.begin(), locations.end());
    written.add_packed_int64(tag(SampleField::value), std::begin(values), std::end(values));
    for (const auto& [key, value] : labels) write_label(written, key, value);
  }

  struct PairHash {
    std::size_t operator()(const std::pair<std::int64_t, std::int64_t>& pair) const {
      return std::hash<std::int64_t>()(pair.first * 1'000'003 + pair.second);
    }
  };

  const Store& store_;
  std::string out_;
  protozero::pbf_writer profile_{out_};
  std::unordered_map<std::string, std::size_t> texts_;
  std::vector<std::string_view> ordered_;
  std::unordered_map<std::string, std::uint64_t> named_;
  std::vector<std::uint64_t> location_of_frame_;  // 0: none yet
  std::unordered_map<std::pair<std::int64_t, std::int64_t>, std::uint64_t, PairHash> functions_;
  std::uint64_t locations_ = 0;
};

}  // namespace

std::string pprof_profile(const StackProfile& profile, const Store& store,
                          const std::vector<AboutLine>& about) {
  return gzipped(PprofWriter(store).write(profile, about));
}

}  // namespace gpumemprof
