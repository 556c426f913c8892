// The viewer's page with a recording embedded: one file that needs no server and no network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpumemprof::view {

// Answers to questions that the page may ask, keyed by the question's text, packed together.
struct Section {
  std::string name;
  std::string packed;  // compressed, as text
};

class SectionWriter {
 public:
  explicit SectionWriter(std::string name) : name_(std::move(name)) {}
  // `json`: the answer.
  void add(std::string_view question, std::string_view json);
  [[nodiscard]] Section finish();
  // Checked before compression. A page of a few megabytes never holds more than that.
  [[nodiscard]] bool is_full() const { return content_.size() > kMostContentBytes; }

 private:
  static constexpr std::size_t kMostContentBytes = std::size_t{64} << 20;
  std::string name_;
  std::string content_;
};

// `page` is the viewer as shipped; the sections are put at its placeholder for data.
std::string page_with_sections(std::string_view page, const std::vector<Section>& sections);

// The content security policy that the page declares; empty where it declares none.
std::string page_policy(std::string_view page);

}  // namespace gpumemprof::view
