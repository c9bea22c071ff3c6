// SPDX-License-Identifier: Apache-2.0
#include "embedding/table_rows.hpp"

#include "kernels/kernel_fixture.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class TableRowsTest : public KernelTest<Stream> {};
TYPED_TEST_SUITE(TableRowsTest, StreamKinds, StreamKindName);

TYPED_TEST(TableRowsTest, refuses_more_ids_of_fixed_hotness_than_it_divides_among_bags) {
  for (bool const hashed : {false, true}) {
    TableRowsArgs args{};
    args.bags.hotness = 2;
    args.bags.bags = std::int64_t{1} << 30U;
    args.bags.capacity = std::int64_t{1} << 31U;
    args.tables = 1;
    args.hashed = hashed;
    std::string message;
    try {
      table_rows(this->stream(), args);
    } catch (std::invalid_argument const& error) {
      message = error.what();
    }
    EXPECT_EQ(message,
              std::string(hashed ? "hash_to_tables" : "rows_of_tables") +
                  ": 2147483648 ids; expected fewer than 2^31");
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
