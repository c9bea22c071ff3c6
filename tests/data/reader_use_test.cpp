// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "data/loaded.hpp"

#include <msstream/data/loader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/transforms.hpp>

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <stdexcept>

namespace msstream::data {
namespace {

using msstream::testing::message_of;
using ::testing::HasSubstr;

TEST(ReaderUse, a_reader_has_one_user) {
  auto const reader = std::make_shared<CountingReader>(100);
  std::optional<Loader> first(std::in_place, reader, LoaderOptions{.batch_size = 10});
  auto const refusal = [](auto const& use) { return message_of<std::invalid_argument>(use); };
  EXPECT_EQ(refusal([&] { Loader second(reader); }),
            "the reader: the reader is in use by a Loader, and its rows would be divided with a "
            "Loader; expected a reader for each");
  EXPECT_THAT(refusal([&] { PartReader part(reader, {}); }),
              HasSubstr("divided with a PartReader; expected a reader for each"));
  EXPECT_THAT(refusal([&] { Transforms(reader->schema()).fit(*reader); }),
              HasSubstr("divided with Transforms::fit()"));
  EXPECT_EQ(all_of(*first).size(), 10U);
  // A loader is the user until it ends, and its reader may have another then, from the beginning.
  EXPECT_THAT(refusal([&] { Loader second(reader); }), HasSubstr("in use by a Loader"));
  first.emplace(Loader(std::make_shared<CountingReader>(1)));
  EXPECT_EQ(seen(Loader(reader).next().value()).ids.front(), 0);
  PartReader part(reader, {});
  EXPECT_THAT(refusal([&] { Loader second(reader); }), HasSubstr("in use by a PartReader"));
  EXPECT_EQ(seen(Loader(part).next().value()).ids.size(), 100U);
}

TEST(ReaderUse, a_loader_begins_at_the_beginning) {
  CountingReader reader(100);
  static_cast<void>(Loader(reader, {.batch_size = 10}).next());
  Loader again(reader, {.batch_size = 100});
  EXPECT_EQ(seen(again.next().value()).ids.size(), 100U);
}

TEST(ReaderUse, a_loader_that_is_refused_leaves_the_reader_free) {
  CountingReader reader(100);
  EXPECT_THROW(Loader(reader, {.batch_size = 0}), std::invalid_argument);
  EXPECT_EQ(seen(Loader(reader).next().value()).ids.size(), 100U);
}

}  // namespace
}  // namespace msstream::data
