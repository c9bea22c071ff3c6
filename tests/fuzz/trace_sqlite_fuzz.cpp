// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of exports of Nsight Systems. The input is SQL, which makes the database: a
// mutated database would hardly ever get past SQLite. An input that begins as a SQLite file does is
// read as it is. The requirements are those of trace_json_fuzz.
#include "read_recordings.hpp"

#ifdef MSSTREAM_HAS_SQLITE
#include <sqlite3.h>
#endif

#include <filesystem>
#include <string>

#ifdef MSSTREAM_HAS_SQLITE
namespace {

using namespace msstream;

/// Returns the bytes of a database that the statements make, as far as they are right.
std::string database_of(std::string const& sql) {
  sqlite3* database = nullptr;
  fuzz::expect(sqlite3_open(":memory:", &database) == SQLITE_OK, "sqlite3_open");
  // Statements that take long are ended.
  int steps = 0;
  constexpr int instructions = 1000;
  sqlite3_progress_handler(
      database,
      instructions,
      [](void* count) { return ++*static_cast<int*>(count) > 100 ? 1 : 0; },
      &steps);
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 1 << 20);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr);
  sqlite3_int64 size = 0;
  auto* const bytes = sqlite3_serialize(database, "main", &size, 0);
  std::string out;
  if (bytes != nullptr) {
    out.assign(reinterpret_cast<char const*>(bytes), static_cast<std::size_t>(size));
  }
  sqlite3_free(bytes);
  sqlite3_close(database);
  return out;
}

}  // namespace
#endif

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  auto const input = msstream::fuzz::as_text(bytes, count);
#ifdef MSSTREAM_HAS_SQLITE
  if (!input.starts_with("SQLite format 3")) {
    msstream::fuzz::read_recordings(database_of(std::string(input)));
    return 0;
  }
#endif
  msstream::fuzz::read_recordings(input);
  return 0;
}
