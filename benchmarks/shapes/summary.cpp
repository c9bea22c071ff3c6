// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

namespace benchmarks::shapes {

namespace {

constexpr std::size_t kSlowestShown = 20;
constexpr std::size_t kOutliersShown = 40;
/// The bytes from which on a launch takes little of an operation's time.
constexpr double kLargeBytes = 64e6;

/// The values of a case's parameters. The operation is the first one, along which no case has a
/// neighbour.
using Parameters = std::array<std::int64_t, 7>;
constexpr std::array<std::string_view, 7> kNames{
    "operation", "type", "ids", "skew", "width", "length", "segments"};

Parameters parameters_of(Case const& what) {
  return {static_cast<std::int64_t>(what.operation),
          static_cast<std::int64_t>(what.dtype),
          what.id_bits,
          static_cast<std::int64_t>(what.skew),
          what.width,
          what.length,
          what.segments};
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns a number, or nothing for 0.
std::string unless_zero(double number) {
  return number > 0 ? fmt::format("{:.2f}", number) : std::string();
}

std::string columns_of(Case const& what) {
  return fmt::format("{:24} {:8} int{:<2} {:5} {:5} {:6} {:8}",
                     name_of(what.operation),
                     name_of(what.dtype),
                     what.id_bits,
                     name_of(what.skew),
                     what.width,
                     what.length,
                     what.segments);
}

/// Returns the median of a number over those of the cases that have it, which are those with a
/// positive number.
template <class Number>
double median_of(std::vector<Measured const*> const& cases, Number const& number) {
  std::vector<double> numbers;
  for (auto const* const measured : cases) {
    if (double const value = number(*measured); value > 0) {
      numbers.push_back(value);
    }
  }
  return median(std::move(numbers));
}

std::string medians_of(std::vector<Measured> const& all, double copy_gbps) {
  std::map<Operation, std::vector<Measured const*>> by_operation;
  for (auto const& measured : all) {
    by_operation[measured.what.operation].push_back(&measured);
  }
  auto text = fmt::format("{:24} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
                          "operation",
                          "shapes",
                          "least us",
                          "of copy",
                          "large",
                          "least",
                          "to CUB");
  for (auto const& [operation, cases] : by_operation) {
    auto const of_copy = [&](Measured const& measured) { return measured.gbps() / copy_gbps; };
    auto const of_copy_if_large = [&](Measured const& measured) {
      return measured.bytes >= kLargeBytes ? of_copy(measured) : 0;
    };
    double least_us = std::numeric_limits<double>::max();
    double least_of_copy = std::numeric_limits<double>::max();
    for (auto const* const measured : cases) {
      least_us = std::min(least_us, measured->us);
      if (measured->bytes >= kLargeBytes) {
        least_of_copy = std::min(least_of_copy, of_copy(*measured));
      }
    }
    bool const has_large = least_of_copy < std::numeric_limits<double>::max();
    text += fmt::format("{:24} {:6} {:8.1f} {:8} {:>8} {:>8} {:>8}\n",
                        name_of(operation),
                        cases.size(),
                        least_us,
                        fmt::format("{:.3f}", median_of(cases, of_copy)),
                        unless_zero(median_of(cases, of_copy_if_large)),
                        unless_zero(has_large ? least_of_copy : 0),
                        unless_zero(median_of(
                            cases, [](Measured const& measured) { return measured.cub_ratio(); })));
  }
  return text;
}

}  // namespace

std::vector<double> slowness(std::vector<Measured> const& all, double copy_gbps) {
  std::map<Operation, double> least_us;
  for (auto const& measured : all) {
    auto const [at, is_new] = least_us.emplace(measured.what.operation, measured.us);
    at->second = std::min(at->second, measured.us);
  }
  std::vector<double> slow;
  for (auto const& measured : all) {
    double const copy_us = measured.bytes / copy_gbps / 1e3;
    slow.push_back(measured.us / (least_us.at(measured.what.operation) + copy_us));
  }
  return slow;
}

std::vector<Outlier> find_outliers(std::vector<Measured> const& all,
                                   std::vector<double> const& slowness) {
  std::vector<Outlier> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    found.push_back({i, {}, 0});
  }
  for (std::size_t along = 1; along < kNames.size(); ++along) {
    // The cases in lines along the parameter: those of a line have all other parameters equal.
    std::map<Parameters, std::map<std::int64_t, std::size_t>> lines;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto others = parameters_of(all[i].what);
      auto const own = others.at(along);
      others.at(along) = 0;
      lines[others][own] = i;
    }
    for (auto const& [others, line] : lines) {
      for (auto at = line.begin(); at != line.end() && line.size() > 1; ++at) {
        double of_neighbours = 0;
        if (at != line.begin()) {
          of_neighbours = slowness[std::prev(at)->second];
        }
        if (auto const next = std::next(at); next != line.end()) {
          of_neighbours = std::max(of_neighbours, slowness[next->second]);
        }
        auto& outlier = found[at->second];
        double const ratio = slowness[at->second] / of_neighbours;
        if (ratio > outlier.ratio) {
          outlier.along = kNames.at(along);
          outlier.ratio = ratio;
        }
      }
    }
  }
  std::erase_if(found, [](Outlier const& outlier) { return outlier.ratio < kOutlier; });
  std::stable_sort(found.begin(), found.end(), [](Outlier const& a, Outlier const& b) {
    return a.ratio > b.ratio;
  });
  return found;
}

std::string heading() {
  return fmt::format("{:24} {:8} {:5} {:5} {:>5} {:>6} {:>8} {:>9} {:>7} {:>7} {:>9} {:>6}\n",
                     "operation",
                     "type",
                     "ids",
                     "skew",
                     "width",
                     "length",
                     "segments",
                     "us",
                     "GB/s",
                     "of copy",
                     "CUB us",
                     "to CUB");
}

std::string line_of(Measured const& measured, double copy_gbps) {
  return fmt::format("{} {:9.2f} {:7.0f} {:7.3f} {:>9} {:>6}\n",
                     columns_of(measured.what),
                     measured.us,
                     measured.gbps(),
                     measured.gbps() / copy_gbps,
                     unless_zero(measured.cub_us),
                     unless_zero(measured.cub_ratio()));
}

std::string summary_of(std::vector<Measured> const& all, double copy_gbps) {
  if (all.empty()) {
    return "no shape was measured\n";
  }
  auto const slow = slowness(all, copy_gbps);
  auto text = fmt::format(
      "\nMedians of {} shapes, with the rate of a device copy, {:.0f} GB/s, as 1. `large` and\n"
      "`least` are the median and the least of the shapes of {:.0f} MB and more; `to CUB` is "
      "CUB's\n"
      "time divided by ours.\n",
      all.size(),
      copy_gbps,
      kLargeBytes / 1e6);
  text += medians_of(all, copy_gbps);

  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return slow[a] > slow[b]; });
  text +=
      "\nSlowest shapes, by time / (least time of the operation + time of a copy of the bytes):\n";
  for (std::size_t i = 0; i < std::min(order.size(), kSlowestShown); ++i) {
    auto const& measured = all[order[i]];
    text += fmt::format(
        "{} {:9.2f} us {:6.2f}x\n", columns_of(measured.what), measured.us, slow[order[i]]);
  }

  auto const outliers = find_outliers(all, slow);
  text += fmt::format(
      "\n{} outliers, by that measure {} times as slow as each neighbour along a "
      "parameter:\n",
      outliers.size(),
      kOutlier);
  for (std::size_t i = 0; i < std::min(outliers.size(), kOutliersShown); ++i) {
    auto const& outlier = outliers[i];
    text += fmt::format("{} {:9.2f} us {:6.2f}x along {}\n",
                        columns_of(all[outlier.index].what),
                        all[outlier.index].us,
                        outlier.ratio,
                        outlier.along);
  }
  if (outliers.size() > kOutliersShown) {
    text += fmt::format("and {} more, which --csv writes\n", outliers.size() - kOutliersShown);
  }
  return text;
}

std::string csv_of(std::vector<Measured> const& all, double copy_gbps) {
  auto const slow = slowness(all, copy_gbps);
  std::map<std::size_t, Outlier> outliers;
  for (auto const& outlier : find_outliers(all, slow)) {
    outliers.emplace(outlier.index, outlier);
  }
  std::string text =
      "operation,type,id_bits,skew,width,length,segments,us,bytes,gb_s,of_copy,slowness,cub_us,"
      "cub_ratio,outlier_along,outlier_ratio\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const& measured = all[i];
    auto const& what = measured.what;
    auto const outlier = outliers.find(i);
    bool const is_outlier = outlier != outliers.end();
    text += fmt::format("{},{},{},{},{},{},{},{:.3f},{:.0f},{:.1f},{:.4f},{:.3f},{},{},{},{}\n",
                        name_of(what.operation),
                        name_of(what.dtype),
                        what.id_bits,
                        name_of(what.skew),
                        what.width,
                        what.length,
                        what.segments,
                        measured.us,
                        measured.bytes,
                        measured.gbps(),
                        measured.gbps() / copy_gbps,
                        slow[i],
                        unless_zero(measured.cub_us),
                        unless_zero(measured.cub_ratio()),
                        is_outlier ? outlier->second.along : std::string_view(),
                        unless_zero(is_outlier ? outlier->second.ratio : 0));
  }
  return text;
}

}  // namespace benchmarks::shapes
