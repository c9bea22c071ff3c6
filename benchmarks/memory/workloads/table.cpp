// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace benchmarks::workloads {

namespace {

constexpr int kNameWidth = 24;
constexpr int kWidth = 10;

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (auto const line : {&Column::above, &Column::below}) {
    fmt::print("{:{}}", "", kNameWidth);
    for (auto const& column : columns_) {
      fmt::print("{:>{}}", column.*line, kWidth);
    }
    fmt::print("\n");
  }
}

void Table::add(std::string const& name, std::vector<std::optional<double>> const& numbers) const {
  fmt::print("{:{}}", name, kNameWidth);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (numbers[i]) {
      fmt::print("{:{}.{}f}", *numbers[i], kWidth, columns_[i].digits);
    } else {
      fmt::print("{:{}}", "", kWidth);
    }
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace benchmarks::workloads
