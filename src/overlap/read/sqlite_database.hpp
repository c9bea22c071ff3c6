// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/counted.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace msstream::overlap {

/// A SQLite file, opened for reading. The tables and their columns are known before any is read:
/// a column that the file lacks is NULL in every row.
///
/// All members throw std::runtime_error with the file's name and SQLite's message.
class SqliteDatabase {
 public:
  /// A row of a query. Valid until the next row.
  class Row {
   public:
    Row(sqlite3_stmt* statement,
        std::vector<int> const& columns,
        std::string_view table,
        Counted& not_numbers)
        : statement_(statement), columns_(&columns), table_(table), not_numbers_(&not_numbers) {}

    /// Returns the whole number in a column; empty for NULL, for a missing column, and for what is
    /// no number.
    [[nodiscard]] std::optional<std::int64_t> number(std::size_t column) const;
    [[nodiscard]] std::int64_t number(std::size_t column, std::int64_t otherwise) const {
      return number(column).value_or(otherwise);
    }
    [[nodiscard]] std::string_view text(std::size_t column) const;

   private:
    sqlite3_stmt* statement_;
    std::vector<int> const* columns_;
    std::string_view table_;
    Counted* not_numbers_;
  };

  explicit SqliteDatabase(std::filesystem::path const& file);
  SqliteDatabase(SqliteDatabase const&) = delete;
  SqliteDatabase& operator=(SqliteDatabase const&) = delete;
  ~SqliteDatabase();

  [[nodiscard]] bool has(std::string_view table) const { return tables_.contains(table); }
  [[nodiscard]] bool has(std::string_view table, std::string_view column) const;
  /// Returns the names of all tables, ascending.
  [[nodiscard]] std::vector<std::string> tables() const;
  /// Returns the values of the rows read so far that are texts or bytes where a number was read, by
  /// table and column.
  [[nodiscard]] Counted const& not_numbers() const noexcept { return not_numbers_; }
  /// Returns the number of rows at most, without reading them.
  [[nodiscard]] std::int64_t most_rows(std::string_view table) const;

  /// Calls `take` for each row of a table, if the file has it.
  void read(std::string_view table,
            std::vector<std::string_view> const& columns,
            std::function<void(Row const&)> const& take) const;

 private:
  void find_tables();
  void query(std::string const& sql, std::function<void(sqlite3_stmt*)> const& take) const;
  [[noreturn]] void fail() const;

  std::string name_;
  sqlite3* database_ = nullptr;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> tables_;
  mutable Counted not_numbers_;
};

}  // namespace msstream::overlap
