// SPDX-License-Identifier: Apache-2.0
// Tests how the types of the library are printed to a std::ostream.
#include <msstream/base/dtype.hpp>
#include <msstream/base/format.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/checker.hpp>
#include <msstream/stream/wait_counts.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace elsewhere {  // a user's namespace: operator<< is found only by argument-dependent lookup
namespace {

template <class T>
concept Printable = requires(std::ostream& out, T const& value) {
  out << value;
};

struct Own {};

std::string to_string(Own const& /*value*/) {
  return "own";
}

template <class T>
std::string printed(T const& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Print, what_the_library_describes) {
  EXPECT_EQ(printed(msstream::Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(printed(msstream::DType::bfloat16), "bfloat16");
  EXPECT_EQ(printed(msstream::order::Position{3, 7}), "stream 3 @ 7");
  EXPECT_EQ(printed(msstream::WaitCounts{5, 2, 3}), "5 waits needed, 2 issued, 3 elided");
  EXPECT_EQ(printed(msstream::CheckKind::race), printed(name_of(msstream::CheckKind::race)));
  msstream::MemoryStatistics statistics;
  statistics.live_bytes = 4;
  statistics.peak_live_bytes = 6;
  statistics.reserved_bytes = 8;
  statistics.peak_reserved_bytes = 9;
  statistics.limit_bytes = 16;
  statistics.growths = 1;
  statistics.allocations = 5;
  statistics.reuses = 4;
  statistics.steals = 3;
  statistics.waiting_reuses = 2;
  EXPECT_EQ(printed(statistics),
            "4 bytes live (peak 6), 8 reserved (peak 9) of at most 16 in 1 growths; 5 allocations, "
            "4 reuses, 3 steals, 2 waiting reuses");
}

TEST(Print, with_fmt_by_width_and_alignment) {
  EXPECT_EQ(fmt::format("{}", msstream::Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(fmt::format("{:>8}|{:_<8}|{:^{}}",
                        msstream::Shape{2, 3},
                        msstream::Shape{},
                        msstream::DType::int64,
                        7),
            "  [2, 3]|[]______| int64 ");
  EXPECT_EQ(fmt::format("{}", msstream::order::Position{3, 7}), "stream 3 @ 7");
  EXPECT_EQ(fmt::format("{}", msstream::WaitCounts{5, 2, 3}), "5 waits needed, 2 issued, 3 elided");
  EXPECT_EQ(fmt::format("{}", msstream::CheckKind::race), "race");
}

TEST(Print, floats_of_16_bits_by_their_values) {
  EXPECT_EQ(printed(msstream::from_float<msstream::float16>(1.5F)), "1.5");
  EXPECT_EQ(printed(msstream::from_float<msstream::bfloat16>(-2.0F)), "-2");
}

TEST(Print, nothing_of_others) {
  static_assert(Printable<msstream::Shape>);
  static_assert(!Printable<Own>);
  static_assert(!fmt::is_formattable<Own>::value);
  EXPECT_EQ(to_string(Own{}), "own");
}

}  // namespace
}  // namespace elsewhere
