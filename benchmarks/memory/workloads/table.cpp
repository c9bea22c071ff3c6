// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <cstdio>
#include <utility>

namespace benchmarks::workloads {

namespace {

constexpr int kNameWidth = 24;
constexpr int kWidth = 10;

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (auto const line : {&Column::above, &Column::below}) {
    std::printf("%-*s", kNameWidth, "");
    for (auto const& column : columns_) {
      std::printf("%*s", kWidth, (column.*line).c_str());
    }
    std::printf("\n");
  }
}

void Table::add(std::string const& name, std::vector<std::optional<double>> const& numbers) const {
  std::printf("%-*s", kNameWidth, name.c_str());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (numbers[i]) {
      std::printf("%*.*f", kWidth, columns_[i].digits, *numbers[i]);
    } else {
      std::printf("%*s", kWidth, "");
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace benchmarks::workloads
