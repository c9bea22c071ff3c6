// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/program.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace msstream::testing {

/// A row of Criteo's data, whose fields of words are lists.
struct ClickRow {
  int label;
  std::vector<std::optional<std::int64_t>> numbers;  ///< 13; some are missing
  std::vector<std::vector<std::string>> words;       ///< 26 lists
};

/// Returns rows of which each list has from `least` to `most` words.
[[nodiscard]] inline std::vector<ClickRow> click_rows(int rows, int least, int most) {
  std::mt19937 random(17);
  auto const draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  std::vector<ClickRow> made;
  for (int row = 0; row < rows; ++row) {
    ClickRow& one = made.emplace_back(ClickRow{draw(0, 3) == 0 ? 1 : 0, {}, {}});
    for (int i = 0; i < 13; ++i) {
      one.numbers.push_back(draw(0, 9) == 0 ? std::nullopt : std::optional(draw(-1, 500)));
    }
    for (int field = 0; field < 26; ++field) {
      auto& list = one.words.emplace_back();
      for (int count = draw(least, most); count > 0; --count) {
        list.push_back(fmt::format("{:08x}", draw(0, 40)));
      }
    }
  }
  return made;
}

/// Writes the rows as Criteo's TSV, with `|` between the words of a list.
inline void write_tsv(std::string const& path, std::vector<ClickRow> const& rows) {
  std::ofstream file(path);
  for (auto const& row : rows) {
    file << row.label;
    for (auto const& number : row.numbers) {
      file << '\t' << (number ? std::to_string(*number) : "");
    }
    for (auto const& list : row.words) {
      file << '\t' << fmt::format("{}", fmt::join(list, "|"));
    }
    file << '\n';
  }
}

/// Returns options of train_dlrm for 96 of 120 rows to train on, in six steps an epoch.
[[nodiscard]] inline Words on_clicks(std::string const& path) {
  return {"--data",
          path,
          "--max-rows",
          "50",
          "--batch",
          "16",
          "--epochs",
          "2",
          "--dimension",
          "4",
          "--bottom",
          "8",
          "--top",
          "8,1",
          "--cross-rank",
          "4",
          "--quiet"};
}

}  // namespace msstream::testing
