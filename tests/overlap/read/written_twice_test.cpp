// SPDX-License-Identifier: Apache-2.0
// Tests of files that tools wrote in unusual ways: events twice, a mark before the text.
#include "overlap/read/written_files.hpp"

#include <string>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::trace_of;
using WrittenTwiceTest = testing::ReadTest;

std::string kernel_event(int correlation, int begin) {
  auto const number = std::to_string(correlation);
  return R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 5, "ts": )" +
         std::to_string(begin) +
         R"(, "args": {"device": 0, "context": 1, "stream": 7, "correlation": )" + number +
         R"(}}, {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
  "dur": 2, "ts": )" +
         std::to_string(begin - 4) + R"(, "args": {"correlation": )" + number + "}}";
}

TEST_F(WrittenTwiceTest, events_that_are_in_the_file_twice_count_once) {
  auto const first = kernel_event(1, 100);
  auto const second = kernel_event(2, 110);
  auto const once = read_one(trace_of(first + "," + second));
  auto const twice = read_one(trace_of(first + "," + second + "," + first + "," + second));
  EXPECT_EQ(once.activities.size(), 2U);
  EXPECT_EQ(twice.activities.size(), 2U);
  EXPECT_EQ(twice.calls.size(), 2U);
  EXPECT_EQ(twice.activities[1].call, 1U);
  EXPECT_THAT(twice.notes, Contains(HasSubstr("4 events were in the file twice")));
}

TEST_F(WrittenTwiceTest, a_byte_order_mark_is_left_out) {
  auto const trace = "\xEF\xBB\xBF" + trace_of(kernel_event(1, 100));
  EXPECT_EQ(read_one(trace).activities.size(), 1U);
  EXPECT_EQ(read_one(testing::gzipped(trace)).activities.size(), 1U);
}

}  // namespace
}  // namespace msstream::overlap
