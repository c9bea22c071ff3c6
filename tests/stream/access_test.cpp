// SPDX-License-Identifier: Apache-2.0
#include "stream/access.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace msstream::detail {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr order::Position kOne{1, 1};
constexpr order::Position kTwo{2, 1};
constexpr order::Position kThree{3, 1};

[[nodiscard]] std::vector<order::Position> followed_by(AccessMode mode,
                                                       AccessRecord const& record) {
  order::PositionSet needed;
  record.add_hazards(mode, needed);
  return {needed.begin(), needed.end()};
}

TEST(AccessRecord, of_unused_memory_has_no_hazards) {
  AccessRecord const record;
  EXPECT_THAT(followed_by(AccessMode::read, record), IsEmpty());
  EXPECT_THAT(followed_by(AccessMode::write, record), IsEmpty());
}

TEST(AccessRecord, a_write_follows_reads_too_and_replaces_all) {
  AccessRecord record;
  record.note(AccessMode::write, kOne);
  record.note(AccessMode::read, kTwo);
  EXPECT_THAT(followed_by(AccessMode::read, record), UnorderedElementsAre(kOne));
  EXPECT_THAT(followed_by(AccessMode::write, record), UnorderedElementsAre(kOne, kTwo));
  record.note(AccessMode::write, kThree);
  EXPECT_THAT(followed_by(AccessMode::write, record), UnorderedElementsAre(kThree));
}

TEST(AccessRecord, a_foreign_write_replaces_no_use) {
  AccessRecord record;
  record.note(AccessMode::write, kOne);
  record.note_foreign(AccessMode::write, kTwo);
  record.note_foreign(AccessMode::read, kThree);
  EXPECT_THAT(followed_by(AccessMode::read, record), UnorderedElementsAre(kOne, kTwo));
  EXPECT_THAT(followed_by(AccessMode::write, record), UnorderedElementsAre(kOne, kTwo, kThree));
}

TEST(AccessRecord, an_accumulation_is_ordered_as_a_write) {
  AccessRecord record;
  record.note(AccessMode::read, kOne);
  EXPECT_THAT(followed_by(AccessMode::accumulate, record), UnorderedElementsAre(kOne));
  record.note(AccessMode::accumulate, kTwo);
  EXPECT_THAT(followed_by(AccessMode::read, record), UnorderedElementsAre(kTwo));
}

}  // namespace
}  // namespace msstream::detail
