// SPDX-License-Identifier: Apache-2.0
// Tests of the multiprocessors that pools ask the driver for, on a fake device with 132 of them
// that has parts of a multiple of 8.
#include "fake_cuda_fixture.hpp"
#include "fake_green_contexts.hpp"

#include <stdexcept>
#include <string>

namespace fake_cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GreenContexts = FakeCudaTest;

unsigned size_of_part(Pool const& pool, int group) {
  return multiprocessors_of(pool[group].compute().native());
}

TEST_F(GreenContexts, are_not_used_unless_they_are_asked_for) {
  Device const device;
  EXPECT_EQ(size_of_part(Pool(device, {.groups = 1}), 0), 132U);
  EXPECT_EQ(calls_of([&] { Pool const pool(device, {.groups = 3}); })["cuGreenCtxCreate"], 0U);
}

TEST_F(GreenContexts, have_what_is_not_spared) {
  Device const device;
  struct Case {
    int parts;
    int spared;
    unsigned expected;
  };
  for (auto const& its : {Case{1, 4, 128},
                          Case{1, 5, 120},
                          Case{1, 16, 112},
                          Case{1, 124, 8},
                          Case{2, 0, 64},
                          Case{2, 4, 64},
                          Case{2, 5, 56},
                          Case{3, 36, 32},
                          Case{16, 4, 8}}) {
    SCOPED_TRACE(::testing::Message() << its.parts << " parts, " << its.spared << " spared");
    Pool const pool(device,
                    {.groups = its.parts, .sm_partitions = its.parts, .spared_sms = its.spared});
    for (int group = 0; group < its.parts; ++group) {
      EXPECT_EQ(size_of_part(pool, group), its.expected);
    }
  }
}

TEST_F(GreenContexts, refuse_to_spare_so_many_that_none_are_left) {
  Device const device;
  try {
    Pool const pool(device, {.groups = 2, .sm_partitions = 2, .spared_sms = 120});
    FAIL() << "did not throw";
  } catch (std::invalid_argument const& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("120 spared multiprocessors and 2 parts"), HasSubstr("has 132")));
  }
  EXPECT_EQ(size_of_part(Pool(device, {.groups = 1, .spared_sms = 8}), 0), 120U);
}

}  // namespace
}  // namespace fake_cuda
