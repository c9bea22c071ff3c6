// SPDX-License-Identifier: Apache-2.0
#include "trace/numbered_name.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace msstream::detail {
namespace {

TEST(NumberedName, is_the_text_unless_another_one_has_it) {
  NumberedName const first("pool group 0");
  NumberedName const other("pool group 1");
  std::optional<NumberedName> second("pool group 0");
  NumberedName const third("pool group 0");
  EXPECT_EQ(first.text(), "pool group 0");
  EXPECT_EQ(other.text(), "pool group 1");
  EXPECT_EQ(second->text(), "pool group 0 (2)");
  EXPECT_EQ(third.text(), "pool group 0 (3)");
  second.reset();
  NumberedName const again("pool group 0");  // takes the free number
  EXPECT_EQ(again.text(), "pool group 0 (2)");
}

TEST(NumberedName, a_text_may_end_with_a_number) {
  NumberedName const numbered("sums (2)");
  NumberedName const first("sums");
  NumberedName const second("sums");
  EXPECT_EQ(second.text(), "sums (3)");
}

}  // namespace
}  // namespace msstream::detail
