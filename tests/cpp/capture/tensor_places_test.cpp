#include "capture/hooks/tensor_places.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

using Words = std::array<std::uint64_t, 8>;

std::uint64_t at(const Words& words) { return reinterpret_cast<std::uint64_t>(words.data()); }

// torch's objects as one of its versions lays them out: a flag before the tensor, counts of 8
// bytes, a name of 32 bytes before the gradient.
class FakeTorch {
 public:
  static constexpr std::size_t kFlag = 2;
  static constexpr std::size_t kTensor = 3;
  static constexpr std::size_t kStorage = 2;
  static constexpr std::size_t kMeta = 3;
  static constexpr std::size_t kAddress = 2;
  static constexpr std::size_t kGradient = 5;

  FakeTorch() : nothing_(make()) {}

  Words& make() { return words_.emplace_back(Words{}); }

  Words& tensor(std::uint64_t address) {
    Words& storage = make();
    storage[kAddress] = address;
    Words& tensor = make();
    tensor[kStorage] = at(storage);
    return tensor;
  }

  // The Python object of a parameter without a gradient.
  Words& parameter(std::uint64_t address) {
    Words& meta = make();
    meta[kGradient] = at(nothing_);
    Words& held = tensor(address);
    held[kMeta] = at(meta);
    Words& object = make();
    object[kTensor] = at(held);
    return object;
  }

  static void set_gradient(const Words& object, std::uint64_t tensor) {
    auto* held = pointer_at<std::uint64_t>(object[kTensor]);
    pointer_at<std::uint64_t>(held[kMeta])[kGradient] = tensor;
  }
  void drop_gradient(const Words& object) { set_gradient(object, at(nothing_)); }

 private:
  std::deque<Words> words_;
  Words& nothing_;
};

class TensorPlacesTest : public testing::Test {
 protected:
  // Once a layout is validated it stays so, including what marks a missing gradient.
  static FakeTorch& torch() {
    static FakeTorch fake;
    return fake;
  }
  static void SetUpTestSuite() {
    Words& with = torch().parameter(0x1000);
    Words& without = torch().parameter(0x2000);
    FakeTorch::set_gradient(with, at(torch().tensor(0x3000)));
    const std::array<ExpectedTensor, 2> wrong = {
        {{at(with), 0x1000, 0x3008}, {at(without), 0x2000, 0}}};
    EXPECT_FALSE(validate_tensors(wrong));
    EXPECT_EQ(TensorPlaces().read({}), TensorPlaces::Change::other);
    const std::array<ExpectedTensor, 1> only_one = {{{at(with), 0x1000, 0x3000}}};
    EXPECT_FALSE(validate_tensors(only_one));
    const std::array<ExpectedTensor, 1> no_memory = {{{8, 0x1000, 0x3000}}};
    EXPECT_FALSE(validate_tensors(no_memory));
    const std::array<ExpectedTensor, 2> right = {
        {{at(with), 0x1000, 0x3000}, {at(without), 0x2000, 0}}};
    ASSERT_TRUE(validate_tensors(right));
  }

  Words& first_ = torch().parameter(0x100);
  Words& second_ = torch().parameter(0x200);
  std::array<std::uintptr_t, 2> both_ = {at(first_), at(second_)};
  TensorPlaces places_;
};

TEST_F(TensorPlacesTest, the_first_reading_knows_nothing_before_it) {
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::other);
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::none);
}

TEST_F(TensorPlacesTest, a_gradient_that_came_or_went_is_for_torch_to_tell) {
  places_.read(both_);
  FakeTorch::set_gradient(second_, at(torch().tensor(0x900)));
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::other);
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::none);
  torch().drop_gradient(second_);
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::other);
}

TEST_F(TensorPlacesTest, gradients_elsewhere_have_moved) {
  FakeTorch::set_gradient(second_, at(torch().tensor(0x900)));
  places_.read(both_);
  FakeTorch::set_gradient(second_, at(torch().tensor(0xA00)));
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::gradients_moved);
  EXPECT_EQ(places_.gradients(), std::vector<std::uint64_t>{0xA00});
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::none);
}

TEST_F(TensorPlacesTest, a_parameter_elsewhere_is_for_torch_to_tell) {
  places_.read(both_);
  first_[FakeTorch::kTensor] = torch().parameter(0x700)[FakeTorch::kTensor];
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::other);
}

TEST_F(TensorPlacesTest, another_count_of_parameters_is_for_torch_to_tell) {
  places_.read(both_);
  EXPECT_EQ(places_.read(std::span(both_).first(1)), TensorPlaces::Change::other);
}

TEST_F(TensorPlacesTest, a_gradient_without_a_storage_is_never_trusted) {
  FakeTorch::set_gradient(first_, at(torch().make()));
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::other);
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::other);
}

TEST_F(TensorPlacesTest, what_is_forgotten_is_read_anew) {
  places_.read(both_);
  places_.forget();
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::other);
}

TEST_F(TensorPlacesTest, an_object_that_only_knows_who_holds_its_tensor_is_read_the_same) {
  FakeTorch::set_gradient(first_, at(torch().tensor(0x900)));
  places_.read(both_);
  Words& holder = torch().make();
  holder[0] = first_[FakeTorch::kTensor];
  first_[FakeTorch::kTensor] = at(holder);
  first_[FakeTorch::kFlag] = 1;
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::none);
  EXPECT_EQ(places_.gradients(), std::vector<std::uint64_t>{0x900});
}

TEST_F(TensorPlacesTest, a_tensor_that_autograd_does_not_know_has_no_gradient) {
  auto* held = pointer_at<std::uint64_t>(first_[FakeTorch::kTensor]);
  held[FakeTorch::kMeta] = 0;
  places_.read(both_);
  EXPECT_EQ(places_.read(both_), TensorPlaces::Change::none);
  EXPECT_TRUE(places_.gradients().empty());
}

}  // namespace
}  // namespace gpumemprof::capture
