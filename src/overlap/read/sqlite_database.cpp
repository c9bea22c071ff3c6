// SPDX-License-Identifier: Apache-2.0
#ifdef MSSTREAM_HAS_SQLITE
#include "overlap/read/sqlite_database.hpp"

#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace msstream::overlap {
namespace {

/// Returns a name as SQL writes it.
std::string sql_name(std::string_view name) {
  std::string out = "\"";
  for (char const c : name) {
    out.append(c == '"' ? 2 : 1, c);
  }
  return out + '"';
}

/// Returns the URI of a file. `immutable` lets SQLite read a file in a folder that cannot be
/// written, where it could make no lock.
std::string uri_of(std::filesystem::path const& file) {
  std::string out = "file:";
  for (char const c : std::filesystem::absolute(file).string()) {
    bool const plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '_' || c == '-';
    out += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return out + "?immutable=1";
}

std::string_view text_of(sqlite3_stmt* statement, int column) {
  auto const* const text = sqlite3_column_text(statement, column);
  if (text == nullptr) {
    return {};
  }
  return {reinterpret_cast<char const*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement, column))};
}

}  // namespace

std::optional<std::int64_t> SqliteDatabase::Row::number(std::size_t column) const {
  int const place = (*columns_)[column];
  int const type = place < 0 ? SQLITE_NULL : sqlite3_column_type(statement_, place);
  if (type == SQLITE_NULL) {
    return std::nullopt;
  }
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) {
    not_numbers_->add(
        [&] { return fmt::format("{}.{}", table_, sqlite3_column_name(statement_, place)); });
    return std::nullopt;
  }
  return sqlite3_column_int64(statement_, place);
}

std::string_view SqliteDatabase::Row::text(std::size_t column) const {
  int const place = (*columns_)[column];
  return place < 0 ? std::string_view() : text_of(statement_, place);
}

SqliteDatabase::SqliteDatabase(std::filesystem::path const& file) : name_(file.string()) {
  constexpr int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  try {
    if (sqlite3_open_v2(uri_of(file).c_str(), &database_, flags, nullptr) != SQLITE_OK) {
      fail();
    }
    find_tables();
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

SqliteDatabase::~SqliteDatabase() {
  sqlite3_close(database_);
}

bool SqliteDatabase::has(std::string_view table, std::string_view column) const {
  auto const found = tables_.find(table);
  return found != tables_.end() && found->second.contains(column);
}

std::vector<std::string> SqliteDatabase::tables() const {
  std::vector<std::string> names;
  for (auto const& [name, columns] : tables_) {
    names.push_back(name);
  }
  return names;
}

std::int64_t SqliteDatabase::most_rows(std::string_view table) const {
  std::int64_t rows = 0;
  if (has(table)) {
    query("SELECT max(rowid) FROM " + sql_name(table),
          [&rows](sqlite3_stmt* statement) { rows = sqlite3_column_int64(statement, 0); });
  }
  return rows;
}

void SqliteDatabase::read(std::string_view table,
                          std::vector<std::string_view> const& columns,
                          std::function<void(Row const&)> const& take) const {
  std::string sql;
  std::vector<int> places;
  int next = 0;
  for (auto const column : columns) {
    if (has(table, column)) {
      sql += (next == 0 ? "SELECT " : ", ") + sql_name(column);
      places.push_back(next++);
    } else {
      places.push_back(-1);
    }
  }
  if (next != 0) {
    query(sql + " FROM " + sql_name(table),
          [&](sqlite3_stmt* statement) { take(Row(statement, places, table, not_numbers_)); });
  }
}

void SqliteDatabase::find_tables() {
  // Views and virtual tables are left out: a file may define them so that reading takes forever.
  query("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
        [this](sqlite3_stmt* statement) { tables_[std::string(text_of(statement, 0))]; });
  for (auto& table : tables_) {
    auto& columns = table.second;
    query("PRAGMA table_info(" + sql_name(table.first) + ")",
          [&columns](sqlite3_stmt* statement) { columns.emplace(text_of(statement, 1)); });
  }
}

void SqliteDatabase::query(std::string const& sql,
                           std::function<void(sqlite3_stmt*)> const& take) const {
  sqlite3_stmt* made = nullptr;
  int result = sqlite3_prepare_v2(database_, sql.c_str(), -1, &made, nullptr);
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> const statement(made, sqlite3_finalize);
  if (result != SQLITE_OK) {
    fail();
  }
  while ((result = sqlite3_step(made)) == SQLITE_ROW) {
    take(made);
  }
  if (result != SQLITE_DONE) {
    fail();
  }
}

void SqliteDatabase::fail() const {
  throw std::runtime_error(fmt::format(
      "{}: SQLite: {}", name_, database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_)));
}

}  // namespace msstream::overlap
#endif
