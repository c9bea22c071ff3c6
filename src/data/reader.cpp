// SPDX-License-Identifier: Apache-2.0
#include "data/chunk_access.hpp"
#include "data/reader_use.hpp"
#include "data/row_error.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/reader.hpp>

#include <fmt/core.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

namespace msstream::data {

Reader::Task Reader::next_task() {
  // A task is a std::function, which must be copyable, so that it shares the rows.
  auto read = std::make_shared<Chunk>(schema());
  detail::ChunkAccess::keep_words(*read, words_);
  auto const begin = position();
  try {
    if (!next(*read)) {
      return {};
    }
  } catch (DataError const&) {
    throw;
  } catch (std::runtime_error const& error) {
    std::throw_with_nested(
        DataError(fmt::format("{}: {}", detail::name_of_rows(*this, begin), error.what())));
  }
  return [read](Chunk& chunk) { chunk = std::move(*read); };
}

std::optional<Reader::CountedTask> Reader::next_counted_task() {
  auto const before = position();
  auto const task = next_task();
  if (!task) {
    return std::nullopt;
  }
  auto const read = std::make_shared<Chunk>(schema());
  detail::ChunkAccess::keep_words(*read, words_);
  detail::with_places(*this, detail::place_of_rows(before, position()), [&] {
    task(*read);
    detail::ChunkAccess::check(*read);
  });
  auto const rows = read->rows();
  return CountedTask{[read](Chunk& chunk) { chunk = std::move(*read); }, rows};
}

detail::ReaderUse::ReaderUse(Reader& reader, char const* user) : reader_(reader) {
  char const* other = nullptr;
  bool const is_free = reader.user_.compare_exchange_strong(other, user);
  require(
      is_free,
      "{}: the reader is in use by {}, and its rows would be divided with {}; expected a reader "
      "for each",
      reader.file_name(0),
      is_free ? "" : other,
      user);
  used_ = std::exchange(reader.used_, true);
}

void detail::ReaderUse::begin() {
  if (used_) {
    reader_.seek({});
  }
}

detail::ReaderUse::~ReaderUse() {
  reader_.user_ = nullptr;
}

std::string Reader::file_name(std::int64_t) const {
  return "the reader";
}

BadRows Reader::bad_rows() const {
  return {};
}

Reader::Source Reader::source() const {
  return {};
}

std::string Reader::part() const {
  return "all";
}

}  // namespace msstream::data
