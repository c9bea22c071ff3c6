// SPDX-License-Identifier: Apache-2.0
#include "comm/kept_ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using Kind = ops::OptimizerKind;

constexpr int kStepsOfTables = 5;
constexpr std::int64_t kSamples = 13;
constexpr float kRateOfTables = 0.3F;
/// Large, so that rounding cannot turn the direction in which a rule moves a weight.
constexpr float kEpsilon = 0.05F;

struct TableShape {
  std::string name;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t hotness;
};
/// The first table is looked up alone, and the others in one lookup.
std::array const kTables{
    TableShape{"alone", 40, 3, 2}, TableShape{"narrow", 6, 1, 1}, TableShape{"wide", 50, 4, 3}};
constexpr std::int64_t kColumns = 3 + 1 + 4;
constexpr std::int64_t kIdsOfSample = 2 + 1 + 3;

struct HowTables {
  Kind kind = Kind::sgd;
  int groups = 0;  ///< the groups on which the lookups are; 0: no scopes
  bool is_captured = false;
  float clip = std::numeric_limits<float>::infinity();
  int without_lookups = -1;  ///< the rank that looks nothing up
  comm::Reduction reduction = comm::Reduction::mean;
};

/// The ids of all samples in a step [samples, hotness], by table; some are -1, which stands for
/// none.
[[nodiscard]] std::vector<std::vector<std::int64_t>> ids_of(int step) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(step) + 1);
  std::vector<std::vector<std::int64_t>> all;
  for (auto const& table : kTables) {
    auto& ids = all.emplace_back();
    for (std::int64_t i = 0; i < kSamples * table.hotness; ++i) {
      // Ids of few rows, so that ranks share some of them.
      ids.push_back(
          static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(table.rows / 2 + 1)) - 1);
    }
  }
  return all;
}

[[nodiscard]] std::vector<float> labels_of_all() {
  auto labels = random_elements<float>(5, kSamples);
  for (auto& label : labels) {
    label = label > 0 ? 1.0F : 0.0F;
  }
  return labels;
}

/// One parameter of the reference, in rows, with the state of its rule.
struct Reference {
  std::vector<double> values;
  std::size_t width;
  bool is_table;
  std::vector<double> first = std::vector<double>(values.size());
  std::vector<double> second = std::vector<double>(values.size());
  std::vector<double> gradient = std::vector<double>(values.size());
  std::vector<bool> is_touched = std::vector<bool>(values.size() / width);

  void update(Kind kind, double factor, int step) {
    for (std::size_t row = 0; row < is_touched.size(); ++row) {
      if (is_table && !is_touched[row]) {
        continue;
      }
      double mean_square = 0;
      for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
        gradient[i] *= factor;
        mean_square += gradient[i] * gradient[i] / static_cast<double>(width);
      }
      for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
        double const g = gradient[i];
        if (kind == Kind::sgd) {
          values[i] -= kRateOfTables * g;
        } else if (kind == Kind::rowwise_adagrad) {
          first[i] += is_table ? mean_square : g * g;
          values[i] -= kRateOfTables * g / (std::sqrt(first[i]) + kEpsilon);
        } else {
          first[i] = 0.9 * first[i] + 0.1 * g;
          second[i] = 0.999 * second[i] + 0.001 * g * g;
          double const m = first[i] / (1 - std::pow(0.9, step + 1));
          double const v = second[i] / (1 - std::pow(0.999, step + 1));
          values[i] -= kRateOfTables * m / (std::sqrt(v) + kEpsilon);
        }
      }
    }
  }
};

/// Trains on all samples in double, from the first values of the tables and of the weight.
[[nodiscard]] std::vector<double> trained_in_double(std::vector<std::vector<float>> const& first,
                                                    HowTables const& how,
                                                    BatchPart const& without_ids,
                                                    double scale) {
  std::vector<Reference> parameters;
  for (std::size_t t = 0; t < first.size(); ++t) {
    bool const is_table = t < kTables.size();
    parameters.push_back({{first[t].begin(), first[t].end()},
                          is_table ? static_cast<std::size_t>(kTables[t].width) : 1,
                          is_table});
  }
  auto& weight = parameters.back();
  auto const labels = labels_of_all();
  for (int step = 0; step < kStepsOfTables; ++step) {
    for (auto& parameter : parameters) {
      std::ranges::fill(parameter.gradient, 0);
      std::fill(parameter.is_touched.begin(), parameter.is_touched.end(), false);
    }
    auto const ids = ids_of(step);
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      bool const has_ids = sample < without_ids.begin || sample >= without_ids.end;
      // Calls use(value, its gradient, column) for all elements that the sample looks up.
      auto const look_up = [&](auto const& use) {
        std::size_t column = 0;
        for (std::size_t t = 0; t < kTables.size(); ++t) {
          auto const width = static_cast<std::size_t>(kTables[t].width);
          auto const hotness = kTables[t].hotness;
          for (std::int64_t k = 0; has_ids && k < hotness; ++k) {
            auto const id = ids[t][static_cast<std::size_t>(sample * hotness + k)];
            for (std::size_t i = 0; id >= 0 && i < width; ++i) {
              auto const place = static_cast<std::size_t>(id) * width + i;
              use(parameters[t].values[place], parameters[t].gradient[place], column + i);
              parameters[t].is_touched[static_cast<std::size_t>(id)] = true;
            }
          }
          column += width;
        }
      };
      std::array<double, kColumns> x{};
      look_up([&](double value, double&, std::size_t column) { x[column] += value; });
      double logit = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        logit += x[i] * weight.values[i];
      }
      double const d = scale *
                       (1 / (1 + std::exp(-logit)) - labels[static_cast<std::size_t>(sample)]) /
                       static_cast<double>(kSamples);
      for (std::size_t i = 0; i < x.size(); ++i) {
        weight.gradient[i] += d * x[i];
      }
      look_up([&](double, double& gradient, std::size_t column) {
        gradient += d * weight.values[column];
      });
    }
    double norm = 0;
    for (auto const& parameter : parameters) {
      for (auto const g : parameter.gradient) {
        norm += g * g;
      }
    }
    for (auto& parameter : parameters) {
      parameter.update(how.kind, std::min(1.0, how.clip / std::sqrt(norm)), step);
    }
  }
  std::vector<double> all;
  for (auto const& parameter : parameters) {
    all.insert(all.end(), parameter.values.begin(), parameter.values.end());
  }
  return all;
}

template <Runtime R>
class TablesOfRank {
 public:
  TablesOfRank(Rank<R> const& rank, HowTables const& how)
      : device_(rank.device),
        how_(how),
        part_(batch_parts(kSamples, rank.size())[rank.rank()]),
        parameters_(rank.device, {.seed = static_cast<std::uint64_t>(rank.rank())}),
        tape_(rank.device),
        optimizer_(rank.device,
                   {.kind = how.kind,
                    .learning_rate = kRateOfTables,
                    .epsilon = how.kind == Kind::sgd ? 1e-8F : kEpsilon},
                   {.clip_norm = how.clip}),
        looks_up_(how.without_lookups != rank.rank()),
        all_ids_(rank.device, {part_.rows() * kIdsOfSample}) {
    std::vector<ops::EmbeddingTable<R>> together;
    std::int64_t begin = 0;
    for (auto const& [name, rows, width, hotness] : kTables) {
      tables_.push_back(parameters_.table(name, {rows, width}, init::uniform(-1, 1)));
      auto const end = begin + part_.rows() * hotness;
      ids_.push_back(all_ids_.rows(begin, end).reshaped({part_.rows(), hotness}));
      begin = end;
      if (tables_.size() > 1) {
        together.push_back({.weights = tables_.back(), .hotness = hotness});
      }
    }
    together_.emplace(device_, together);
    weight_.emplace(parameters_.dense("weight", {kColumns, 1}, init::uniform(-1, 1)));
    frozen_.emplace(parameters_.table("frozen", {4, kColumns}, init::zeros()));
    parameters_.freeze("frozen");
    optimizer_.add(parameters_);
    if (how.groups > 0) {
      pool_.emplace(device_, StreamPoolOptions{.groups = how.groups, .log = nullptr});
    }
    parallel_.emplace(
        parameters_, rank.communicator, DataParallelOptions{.reduction = how.reduction});
  }

  /// Returns the values of the tables and of the weight.
  [[nodiscard]] std::vector<std::vector<float>> values() const {
    std::vector<std::vector<float>> all;
    for (auto const& table : tables_) {
      all.push_back(to_host(table));
    }
    all.push_back(to_host(*weight_));
    return all;
  }
  void train() {
    auto const labels =
        to_device(device_, labels_of_all(), {kSamples, 1}).rows(part_.begin, part_.end);
    auto const samples =
        to_device(device_, std::vector<float>{static_cast<float>(part_.rows())}, {1});
    auto const step = [&] {
      auto const logits = ops::matmul(tape_, looked_up(), *weight_);
      parallel_->backward(
          tape_,
          parallel_->weighted(tape_, ops::mean_bce_with_logits(tape_, logits, labels), samples));
      optimizer_.step(tape_);
      tape_.clear();
    };
    put_ids(0);
    std::optional<CapturedStep<R>> captured;
    if (how_.is_captured) {
      captured.emplace(device_, step);
    }
    for (int i = 0; i < kStepsOfTables; ++i) {
      put_ids(i);
      if (captured) {
        captured->replay();
      } else {
        step();
      }
    }
  }

 private:
  void put_ids(int step) {
    auto const all = ids_of(step);
    for (std::size_t t = 0; t < kTables.size(); ++t) {
      auto const hotness = kTables[t].hotness;
      std::vector<std::int64_t> const own(all[t].begin() + part_.begin * hotness,
                                          all[t].begin() + part_.end * hotness);
      copy(ids_[t], to_device(device_, own, {part_.rows(), hotness}));
    }
  }
  [[nodiscard]] Tensor<float, R> looked_up() {
    auto const count = part_.rows();
    if (!looks_up_) {
      Tensor<float, R> const none(device_, {count, kColumns});
      fill_bytes(none, 0);
      return none;
    }
    auto const on_group = [&](int number, auto const& look_up) {
      std::optional<StreamScope<R>> scope;
      if (pool_) {
        scope.emplace((*pool_)[number % how_.groups], StreamScopeOptions{.include_grad = true});
      }
      return look_up();
    };
    ops::Bags<R> const bags(ids_[0]);
    auto const alone =
        on_group(0, [&] { return ops::embedding_lookup(tape_, tables_[0], bags, {}); });
    auto const others = on_group(1, [&] {
      return ops::embedding_lookup(
          tape_,
          *together_,
          ops::TableBags<R>{.ids = all_ids_.rows(ids_[0].count(), all_ids_.count()),
                            .batch = count});
    });
    auto const frozen = on_group(
        2, [&] { return ops::embedding_lookup(tape_, *frozen_, ops::Bags<R>(ids_[1]), {}); });
    return ops::add(tape_, ops::concat(tape_, std::vector{alone, others}), frozen);
  }

  Device<R> device_;
  HowTables how_;
  BatchPart part_;
  Parameters<R> parameters_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  bool looks_up_;
  std::vector<Tensor<float, R>> tables_;
  Tensor<std::int64_t, R> all_ids_;  ///< table by table
  std::vector<Tensor<std::int64_t, R>> ids_;
  std::optional<ops::EmbeddingTables<R>> together_;
  std::optional<Tensor<float, R>> weight_;
  std::optional<Tensor<float, R>> frozen_;
  std::optional<StreamPool<R>> pool_;
  std::optional<DataParallel<R>> parallel_;
};

template <class R>
class DataParallelTables : public RanksTest<R> {
 protected:
  /// Trains on the ranks, whose parts differ by a sample, and compares the values of all ranks with
  /// the reference. Returns the last values.
  static std::vector<float> expect_trained(int ranks, HowTables const& how) {
    std::mutex mutex;
    std::map<int, std::vector<std::vector<std::vector<float>>>> results;
    on_kept_ranks<R>(ranks, [&](Rank<R> const& rank) {
      TablesOfRank<R> training(rank, how);
      auto const first = training.values();
      training.train();
      std::lock_guard const guard(mutex);
      results[rank.rank()] = {first, training.values()};
    });
    ranks = static_cast<int>(results.size());
    BatchPart without_ids{0, 0};
    if (how.without_lookups >= 0) {
      without_ids = batch_parts(kSamples, ranks)[how.without_lookups];
    }
    auto const expected = trained_in_double(
        results[0][0], how, without_ids, how.reduction == comm::Reduction::sum ? ranks : 1);
    std::vector<float> values;
    for (auto const& parameter : results[0][1]) {
      values.insert(values.end(), parameter.begin(), parameter.end());
    }
    for (auto const& [rank, result] : results) {
      EXPECT_EQ(result, results[0]) << "rank " << rank;
    }
    EXPECT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i], 5e-5 * (1 + std::abs(expected[i]))) << "element " << i;
    }
    return values;
  }
};
TYPED_TEST_SUITE(DataParallelTables, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(DataParallelTables, ranks_train_tables_as_one_trains_them_on_the_whole_batch) {
  for (auto const kind : {Kind::sgd, Kind::rowwise_adagrad, Kind::adam}) {
    for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
      SCOPED_TRACE(std::string(ops::name_of(kind)) + ", ranks: " + std::to_string(ranks));
      TestFixture::expect_trained(ranks, {.kind = kind});
    }
  }
}

TYPED_TEST(DataParallelTables, gradients_of_rows_are_clipped_and_summed) {
  TestFixture::expect_trained(3, {.kind = Kind::sgd, .clip = 0.05F});
  TestFixture::expect_trained(3, {.kind = Kind::adam, .reduction = comm::Reduction::sum});
}

TYPED_TEST(DataParallelTables, a_rank_without_lookups_gets_the_rows_of_the_others) {
  for (int const rank : {0, 1}) {
    for (bool const is_captured : {false, true}) {
      TestFixture::expect_trained(
          2, {.kind = Kind::adam, .is_captured = is_captured, .without_lookups = rank});
    }
  }
}

TYPED_TEST(DataParallelTables, bits_are_equal_for_all_groups_eager_and_captured) {
  for (auto const kind : {Kind::sgd, Kind::rowwise_adagrad, Kind::adam}) {
    auto const expected = bits_of(TestFixture::expect_trained(3, {.kind = kind, .clip = 0.2F}));
    for (int const groups : {0, 1, 2, 4}) {
      for (bool const is_captured : {false, true}) {
        auto const values = TestFixture::expect_trained(
            3, {.kind = kind, .groups = groups, .is_captured = is_captured, .clip = 0.2F});
        if (!is_by_nccl<TypeParam>) {
          EXPECT_EQ(bits_of(values), expected) << groups << " groups, captured: " << is_captured;
        }
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
