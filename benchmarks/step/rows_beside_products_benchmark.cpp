// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"
#include "cli/outputs.hpp"
#include "ops/trained_tables.hpp"
#include "rows_beside_products/dcn_products.hpp"
#include "rows_beside_products/parts_cuda.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// Measures how much of the work on the rows of embedding tables is hidden behind matrix products:
/// on two stream groups with several priorities, on parts of the multiprocessors, and beside
/// products that cuBLASLt plans for fewer multiprocessors than there are.
namespace benchmarks {
namespace {

namespace cli = ms::cli;
using R = CudaInParts;
using train_dlrm::DlrmShape;

struct Asked {
  std::vector<std::int64_t> batches{8'192, 65'536};
  std::vector<int> parts{16, 32, 48, 64};
  int repeats = 9;
  int replays = 3;
  std::int64_t max_rows = DlrmShape{}.max_rows;
  Draw draw = Draw::uniform;
  bool quick = false;
};

constexpr char const* kDescription =
    "How much of the work on rows of embedding tables hides behind matrix products, on one GPU.\n"
    "\n"
    "The products are those of DCN-v2 in bfloat16 (examples/train_dlrm): three cross layers of\n"
    "rank 512 on 3,456 features, and top layers 3,456-1,024-1,024-512-256; the gradients of the\n"
    "weights alone, or all of a step. The rows are those of MLPerf's 26 tables, 214 ids a sample,\n"
    "128 floats: the lookup, the grouping of ids, and backward and row-wise Adagrad at once.\n"
    "\n"
    "Times are medians between two CUDA events around replays of a captured graph. All forms of a\n"
    "table are measured in turn. hidden: the sum of both times alone less the time together, of\n"
    "the smaller time alone. A part of the multiprocessors is a green context.";

Asked parse_options(cli::Arguments const& arguments) {
  Asked asked;
  cli::Options options(kDescription,
                       {{"rows_beside_products_benchmark", "everything, some minutes"},
                        {"rows_beside_products_benchmark --quick", "two tables, a first look"},
                        {"rows_beside_products_benchmark --batches 8192 --parts 8,24,40",
                         "other divisions of the multiprocessors"}});
  options.add<std::int64_t>("--batches", asked.batches, "samples of a batch", {1, 1 << 17});
  options.add<int>("--parts",
                   asked.parts,
                   "multiprocessors for rows, the others are for products",
                   {1, 1 << 10});
  options.add<int>(
      "--repeats", asked.repeats, "measurements, of which the median counts", {1, 999});
  options.add<int>("--replays", asked.replays, "replays of a measurement", {1, 999});
  options.add<std::int64_t>(
      "--max-rows", asked.max_rows, "rows of a table at most", {1, 40'000'000});
  options.add_choice("--draw",
                     asked.draw,
                     {{"uniform", Draw::uniform}, {"power_law", Draw::power_law}},
                     "the distribution of ids");
  options.add_flag("--quick", asked.quick, "a batch, a division and two tables alone");
  options.parse(arguments, std::cerr);
  if (asked.quick) {
    asked.batches.resize(1);
    asked.parts = {asked.parts.size() > 1 ? asked.parts[1] : asked.parts[0]};
  }
  return asked;
}

enum class RowsOf : std::uint8_t { lookup, group, update, group_and_update, step };

[[nodiscard]] std::string_view name_of(RowsOf rows) {
  constexpr std::string_view kNames[] = {"lookup",
                                         "grouping of ids",
                                         "update, ids grouped before",
                                         "grouping of ids and update",
                                         "grouping of ids, update and lookup"};
  return kNames[static_cast<std::size_t>(rows)];
}
[[nodiscard]] std::string_view name_of(ProductsOf products) {
  return products == ProductsOf::step ? "all products" : "weight gradients";
}

/// The products and the work on rows that are measured together.
struct Pair {
  ProductsOf products;
  RowsOf rows;
};
constexpr std::array kPairs{Pair{ProductsOf::weight_gradients, RowsOf::update},
                            Pair{ProductsOf::step, RowsOf::step},
                            Pair{ProductsOf::weight_gradients, RowsOf::group_and_update},
                            Pair{ProductsOf::weight_gradients, RowsOf::group},
                            Pair{ProductsOf::weight_gradients, RowsOf::lookup},
                            Pair{ProductsOf::step, RowsOf::lookup},
                            Pair{ProductsOf::step, RowsOf::group},
                            Pair{ProductsOf::step, RowsOf::update}};
constexpr std::size_t kQuickPairs = 2;

using Group = ms::StreamGroup<R>;

/// A way to run rows, products or both.
struct Form {
  std::string name;
  std::optional<Group> rows = {};
  std::optional<Group> products = {};
  /// For how many multiprocessors cuBLASLt plans products; null: products of the library.
  std::optional<int> planned = {};
  bool are_products_first = false;  ///< in the order of issue
};

/// The stream groups of all forms.
class Groups {
 public:
  Groups(ms::Device<R> const& device, std::vector<int> const& parts)
      : device_(device),
        ordinary_(device, options(2, ms::StreamPriority::normal, 1)),
        high_(device, options(1, ms::StreamPriority::high, 1)) {
    auto const count = 2 * static_cast<int>(parts.size());
    if (count > 0) {
      parts_.emplace(device, options(count, ms::StreamPriority::normal, count));
    }
  }

  /// Returns the forms, of which the first three are products alone, rows alone and both in turn.
  [[nodiscard]] std::vector<Form> forms() const {
    auto const& [a, b, high] = std::tie(ordinary_[0], ordinary_[1], high_[0]);
    auto const all = device_.runtime().multiprocessors();
    std::vector<Form> forms{{.name = "products alone", .products = a},
                            {.name = "rows alone", .rows = a},
                            {.name = "rows, then products", .rows = a, .products = a},
                            {.name = "products of cuBLASLt alone", .products = a, .planned = 0},
                            {.name = "two groups", .rows = a, .products = b},
                            {.name = "two groups, products first",
                             .rows = a,
                             .products = b,
                             .are_products_first = true},
                            {.name = "two groups, rows high", .rows = high, .products = a},
                            {.name = "two groups, products high", .rows = a, .products = high}};
    for (int part = 0; parts_ && part < parts_->groups(); part += 2) {
      auto const& rows = (*parts_)[part];
      auto const& products = (*parts_)[part + 1];
      auto const few = device_.runtime().multiprocessors_of(part);
      auto const rest = device_.runtime().multiprocessors_of(part + 1);
      auto const planned = fmt::format(", products for {}", rest);
      forms.push_back({.name = fmt::format("rows alone, part of {}", few), .rows = rows});
      forms.push_back(
          {.name = fmt::format("products alone, part of {}", rest), .products = products});
      forms.push_back({.name = fmt::format("products alone, part of {}{}", rest, planned),
                       .products = products,
                       .planned = rest});
      forms.push_back(
          {.name = fmt::format("products alone{}", planned), .products = a, .planned = rest});
      auto const both = fmt::format("parts of {} and {}", few, rest);
      forms.push_back({.name = both, .rows = rows, .products = products});
      forms.push_back(
          {.name = both + planned, .rows = rows, .products = products, .planned = rest});
      // Rows on all multiprocessors beside products that leave some of them alone.
      forms.push_back({.name = fmt::format("rows on {}, products on part of {}", all, rest),
                       .rows = a,
                       .products = products,
                       .planned = rest});
      forms.push_back({.name = "two groups" + planned, .rows = a, .products = b, .planned = rest});
      forms.push_back({.name = "two groups, rows high" + planned,
                       .rows = high,
                       .products = a,
                       .planned = rest});
    }
    return forms;
  }

 private:
  [[nodiscard]] static ms::StreamPoolOptions options(int groups,
                                                     ms::StreamPriority priority,
                                                     int partitions) {
    ms::StreamPoolOptions options;
    options.groups = groups;
    options.merge_streams = true;
    options.priority = priority;
    options.sm_partitions = partitions;
    options.spared_sms = 0;
    options.launch_threads = ms::LaunchThreads::none;
    options.assignment.reset();
    options.propagate_groups = false;
    return options;
  }

  ms::Device<R> device_;
  ms::StreamPool<R> ordinary_;
  ms::StreamPool<R> high_;
  std::optional<ms::StreamPool<R>> parts_;
};

/// The tables and the products of a batch.
class Work {
 public:
  Work(ms::Device<R> const& device, DlrmShape const& shape, std::int64_t batch, Draw draw)
      : tables_(device, shape, batch, draw),
        products_(device, shape, batch),
        grouped_(tables_.group()) {}

  /// Issues both sides of a pair, or one of them, as a form says.
  void issue(Pair const& pair, Form const& form) const {
    auto const rows = [&] {
      if (form.rows) {
        ms::StreamScope<R> const scope(*form.rows);
        issue(pair.rows);
      }
    };
    if (!form.are_products_first) {
      rows();
    }
    if (form.products) {
      ms::StreamScope<R> const scope(*form.products);
      products_.issue(pair.products, form.planned);
    }
    if (form.are_products_first) {
      rows();
    }
  }
  [[nodiscard]] std::int64_t distinct() const { return tables_.distinct(); }

 private:
  void issue(RowsOf rows) const {
    switch (rows) {
      case RowsOf::lookup:
        static_cast<void>(tables_.lookup());
        break;
      case RowsOf::group:
        static_cast<void>(tables_.group());
        break;
      case RowsOf::update:
        tables_.update(grouped_);
        break;
      case RowsOf::group_and_update:
        tables_.update(tables_.group());
        break;
      case RowsOf::step:
        tables_.update(tables_.group());
        static_cast<void>(tables_.lookup());
        break;
    }
  }

  TrainedTables<float, ms::bfloat16, R> tables_;
  DcnProducts<R> products_;
  ms::ops::detail::GroupedTables grouped_;
};

/// Measures by two events of the device.
class Stopwatch {
 public:
  explicit Stopwatch(ms::Device<R> const& device) : device_(device) {}
  Stopwatch(Stopwatch const&) = delete;
  Stopwatch& operator=(Stopwatch const&) = delete;
  ~Stopwatch() {
    runtime().destroy_event(begin_);
    runtime().destroy_event(end_);
  }

  /// Returns the microseconds of a replay, the mean of `replays` back to back. Another replay comes
  /// before them, during which the host gets ahead of the device.
  [[nodiscard]] double replay_us(ms::CapturedStep<R>& step, int replays) {
    auto const stream = device_.current_group().compute().native();
    step.replay();
    runtime().record(begin_, stream);
    for (int i = 0; i < replays; ++i) {
      step.replay();
    }
    runtime().record(end_, stream);
    runtime().synchronize(end_);
    return runtime().elapsed_ns(begin_, end_) / (1e3 * replays);
  }

 private:
  [[nodiscard]] R& runtime() const { return device_.runtime(); }

  ms::Device<R> device_;
  R::native_event begin_ = runtime().create_event(ms::EventTiming::timed);
  R::native_event end_ = runtime().create_event(ms::EventTiming::timed);
};

/// The times of a form in microseconds, or why there are none.
struct Times {
  std::vector<double> us = {};
  std::string failure = {};

  [[nodiscard]] double median() const {
    auto sorted = us;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

/// Measures all forms of a pair in turn.
std::vector<Times> measure(ms::Device<R> const& device,
                           Work const& work,
                           Pair const& pair,
                           std::vector<Form> const& forms,
                           Asked const& asked) {
  ms::StepMemory<R> const memory(device);
  std::vector<std::unique_ptr<ms::CapturedStep<R>>> steps;
  std::vector<Times> times(forms.size());
  for (std::size_t i = 0; i < forms.size(); ++i) {
    auto& step = steps.emplace_back();
    try {
      work.issue(pair, forms[i]);  // creates what is created on first use
      step = std::make_unique<ms::CapturedStep<R>>(
          device, [&] { work.issue(pair, forms[i]); }, memory);
    } catch (std::exception const& error) {
      times[i].failure = error.what();
    }
  }
  Stopwatch watch(device);
  for (int round = -1; round < asked.repeats; ++round) {
    for (std::size_t i = 0; i < forms.size(); ++i) {
      if (steps[i] == nullptr) {
        continue;
      }
      auto const us = watch.replay_us(*steps[i], asked.replays);
      if (round >= 0) {  // the first round warms up
        times[i].us.push_back(us);
      }
    }
  }
  return times;
}

void print_table(std::vector<Form> const& forms, std::vector<Times> const& times) {
  cli::print(fmt::format(
      "{:60}{:>10}{:>10}{:>10}{:>9}{:>12}\n", "", "us", "least", "most", "hidden", "of in turn"));
  bool const has_base =
      times[0].failure.empty() && times[1].failure.empty() && times[2].failure.empty();
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (!times[i].failure.empty()) {
      cli::print(fmt::format("{:60}failed: {}\n", forms[i].name, times[i].failure));
      continue;
    }
    auto const us = times[i].median();
    auto line = fmt::format("{:60}{:10.1f}{:10.1f}{:10.1f}",
                            forms[i].name,
                            us,
                            std::ranges::min(times[i].us),
                            std::ranges::max(times[i].us));
    if (has_base && forms[i].rows && forms[i].products) {
      auto const products = times[0].median();
      auto const rows = times[1].median();
      line += fmt::format("{:8.0f}%{:12.3f}",
                          100 * (products + rows - us) / std::min(products, rows),
                          us / times[2].median());
    }
    cli::print(line + "\n");
  }
}

void run(cli::Arguments const& arguments) {
  auto const asked = parse_options(arguments);
  ms::Device<R> const device({.runtime = {.first_parts = asked.parts}});
  cli::print(fmt::format("{}; medians of {} measurements of {} replays\n",
                         device.runtime().description(),
                         asked.repeats,
                         asked.replays));
  Groups const groups(device, asked.parts);
  auto const forms = groups.forms();
  DlrmShape shape;
  shape.max_rows = asked.max_rows;
  for (auto const batch : asked.batches) {
    Work const work(device, shape, batch, asked.draw);
    auto const pairs = asked.quick ? kQuickPairs : kPairs.size();
    for (std::size_t i = 0; i < pairs; ++i) {
      cli::print(fmt::format("\nbatch {}, {} ids of {} rows; {}; {}\n",
                             batch,
                             batch * shape.ids(),
                             work.distinct(),
                             name_of(kPairs[i].products),
                             name_of(kPairs[i].rows)));
      print_table(forms, measure(device, work, kPairs[i], forms, asked));
    }
  }
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, benchmarks::run);
}
