// SPDX-License-Identifier: Apache-2.0
#include "data/chunk_access.hpp"

#include <msstream/data/reader.hpp>

#include <memory>
#include <utility>

namespace msstream::data {

Reader::Task Reader::next_task() {
  // A task is a std::function, which must be copyable, so that it shares the rows.
  auto read = std::make_shared<Chunk>(schema());
  detail::ChunkAccess::keep_words(*read, words_);
  if (!next(*read)) {
    return {};
  }
  return [read](Chunk& chunk) { chunk = std::move(*read); };
}

std::string Reader::file_name(std::int64_t) const {
  return "the reader";
}

}  // namespace msstream::data
