// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/kept_ranks.hpp"
#include "step/parallel/sharded_bags.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace msstream::testing {

constexpr int kClippedSteps = 3;
constexpr float kClippedRate = 0.5F;

struct HowClipped {
  std::vector<TableSpec> specs;
  std::int64_t samples = 9;
  std::int64_t dense = 6;  ///< elements
  std::vector<Sharding> shardings = {Sharding::table_wise};
  float clip = std::numeric_limits<float>::infinity();
  bool skips = false;
  int groups = 0;
  bool is_captured = false;
  bool tables_together = false;
  int micro_batches = 1;
  bool is_in_two = false;  ///< whether each table is in one of two ShardedTables
  int bad_step = -1;       ///< has an infinite gradient in the first table
  std::uint64_t seed = 1;
  SentRows sent = SentRows::pooled;

  [[nodiscard]] std::int64_t width() const {
    std::int64_t width = 0;
    for (auto const& spec : specs) {
      width += spec.width;
    }
    return width;
  }
};

/// Returns up to four tables of random sizes, whose rows are added.
[[nodiscard]] inline HowClipped random_clipping(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  auto const within = [&](int least, int most) {
    return least + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(most - least));
  };
  HowClipped how;
  how.seed = seed;
  auto const tables = within(2, 5);
  for (std::int64_t t = 0; t < tables; ++t) {
    how.specs.push_back({.name = "table" + std::to_string(t),
                         .rows = within(4, 60),
                         .width = within(4, 9),
                         .hotness = within(1, 4),
                         .initializer = init::uniform(-1, 1)});
  }
  how.samples = within(5, 20);
  how.dense = within(1, 3000);
  return how;
}

/// The gradients of a micro-batch by the pooled rows, [samples, width], and by the dense parameter.
struct GradientsOfBatch {
  std::vector<float> pooled;
  std::vector<float> dense;
};
[[nodiscard]] inline GradientsOfBatch gradients_of_batch(HowClipped const& how, int batch) {
  auto const seed = how.seed * 1000 + static_cast<std::uint64_t>(batch);
  GradientsOfBatch all{
      random_elements<float>(seed, static_cast<std::size_t>(how.samples * how.width())),
      random_elements<float>(seed + 500, static_cast<std::size_t>(how.dense))};
  if (batch / how.micro_batches == how.bad_step) {
    // That of the first columns of the first table.
    all.pooled[0] = std::numeric_limits<float>::infinity();
    all.pooled[1] = -std::numeric_limits<float>::infinity();
  }
  return all;
}
[[nodiscard]] inline BagLists bags_of_batch(HowClipped const& how, int batch) {
  auto bags = random_bags(how.specs, how.samples, false, how.seed + static_cast<unsigned>(batch));
  if (batch / how.micro_batches == how.bad_step) {
    bags[0][0].assign(1, 0);
    bags[0][1].clear();
  }
  return bags;
}

struct Clipped {
  std::vector<std::vector<double>> tables;
  std::vector<double> dense;
  std::vector<double> norms;  ///< of each step
  std::int64_t skipped = 0;
};

/// Trains in float64 from the tables and the dense parameter at the beginning.
[[nodiscard]] inline Clipped clipped_reference(HowClipped const& how, Clipped state) {
  for (int step = 0; step < kClippedSteps; ++step) {
    auto gradients = state.tables;
    for (auto& of_table : gradients) {
      std::ranges::fill(of_table, 0.0);
    }
    std::vector<double> dense(state.dense.size());
    for (int micro = 0; micro < how.micro_batches; ++micro) {
      auto const batch = step * how.micro_batches + micro;
      auto const bags = bags_of_batch(how, batch);
      auto const given = gradients_of_batch(how, batch);
      for (std::size_t i = 0; i < dense.size(); ++i) {
        dense[i] += static_cast<double>(given.dense[i]) / how.micro_batches;
      }
      std::int64_t first = 0;
      for (std::size_t t = 0; t < how.specs.size(); ++t) {
        auto const& spec = how.specs[t];
        for (std::int64_t s = 0; s < how.samples; ++s) {
          for (auto const id : bags[t][static_cast<std::size_t>(s)]) {
            for (std::int64_t c = 0; id >= 0 && id < spec.rows && c < spec.width; ++c) {
              auto const at = static_cast<std::size_t>(s * how.width() + first + c);
              gradients[t][static_cast<std::size_t>(id * spec.width + c)] +=
                  static_cast<double>(given.pooled[at]) / how.micro_batches;
            }
          }
        }
        first += spec.width;
      }
    }
    double squares = 0;
    auto const add = [&](std::vector<double> const& of) {
      for (auto const g : of) {
        squares += g * g;
      }
    };
    add(dense);
    std::ranges::for_each(gradients, add);
    state.norms.push_back(std::sqrt(squares));
    if (how.skips && !std::isfinite(squares)) {
      ++state.skipped;
      continue;
    }
    auto const scale = std::min(1.0, static_cast<double>(how.clip) / state.norms.back());
    auto const move = [&](std::vector<double>& weights, std::vector<double> const& by) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] -= static_cast<double>(kClippedRate) * scale * by[i];
      }
    };
    move(state.dense, dense);
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      move(state.tables[t], gradients[t]);
    }
  }
  return state;
}

/// The results of training in parts: the state at the beginning and at the end, and the bits of
/// what each rank has at the end.
struct ClippedOnRanks {
  Clipped before;
  Clipped after;
  std::vector<std::vector<std::int64_t>> bits;
  std::vector<std::vector<double>> norms;  ///< of each rank, in each step
};

/// Trains on one rank of several.
template <Runtime R>
class ClippedRank {
 public:
  ClippedRank(Rank<R> const& rank, HowClipped const& how)
      : rank_(rank),
        how_(how),
        part_(uneven_parts(how.samples, rank.size())[static_cast<std::size_t>(rank.rank())]),
        parameters_(rank.device, {.seed = 3}),
        weight_(parameters_.dense("weight", {how.dense}, init::uniform(-1, 1))),
        parallel_(parameters_, rank.communicator, {.reduction = comm::Reduction::sum}),
        second_(rank.device, rank.world, {.name = "second"}),
        optimizer_(rank.device,
                   {.kind = ops::OptimizerKind::sgd, .learning_rate = kClippedRate},
                   {.tables_together = how.tables_together,
                    .clip_norm = how.clip,
                    .skip_non_finite = how.skips,
                    .micro_batches = how.micro_batches}),
        tape_(rank.device),
        of_dense_(rank.device, {how.micro_batches, how.dense}) {
    optimizer_.add(parameters_);
    auto const middle = how.is_in_two ? how.specs.size() / 2 : how.specs.size();
    add({how.specs.begin(), how.specs.begin() + static_cast<std::ptrdiff_t>(middle)},
        rank.communicator);
    if (how.is_in_two) {
      add({how.specs.begin() + static_cast<std::ptrdiff_t>(middle), how.specs.end()}, second_);
    }
    if (how.groups > 0) {
      pool_.emplace(rank.device, StreamPoolOptions{.groups = how.groups, .log = nullptr});
    }
  }

  /// Passes (number of the table, first row, first column, elements, shape) of each part to
  /// `visit`.
  template <class Visit>
  void visit_parts(Visit const& visit) const {
    for (auto const& some : tables_) {
      some.tables.for_each_part([&](std::string const& name, auto const& tensor) {
        auto const t = static_cast<std::size_t>(
            std::ranges::find(how_.specs, name, &TableSpec::name) - how_.specs.begin());
        auto const& at =
            *std::ranges::find(some.tables.plan().tables, name, &TablePlacement::table);
        visit(t, block_of(at, how_.specs[t]), tensor.shape()[1], to_host_floats(tensor));
      });
    }
  }
  [[nodiscard]] std::vector<float> weight() const { return to_host(weight_); }

  /// Returns the norm of each step.
  std::vector<double> train() {
    std::optional<CapturedStep<R>> captured;
    put(0);
    if (how_.is_captured) {
      captured.emplace(rank_.device, [&] { step(); });
    }
    std::vector<double> norms;
    for (int i = 0; i < kClippedSteps; ++i) {
      put(i);
      if (captured) {
        captured->replay();
      } else {
        step();
      }
      norms.push_back(optimizer_.status().gradient_norm);
    }
    return norms;
  }
  [[nodiscard]] std::int64_t skipped() const { return optimizer_.status().skipped; }

 private:
  /// Some tables, with the bags and the gradients of each micro-batch.
  struct SomeTables {
    std::vector<TableSpec> specs;
    std::int64_t first_column;
    ShardedTables<R> tables;
    std::vector<BagsOnDevice<R>> bags = {};
    std::vector<Tensor<float, R>> gradients = {};
  };
  struct FirstOfBlock {
    std::int64_t row;
    std::int64_t column;
  };

  template <Element T>
  [[nodiscard]] static std::vector<float> to_host_floats(Tensor<T, R> const& tensor) {
    std::vector<float> elements;
    for (auto const element : to_host(tensor)) {
      elements.push_back(to_float(element));
    }
    return elements;
  }
  [[nodiscard]] FirstOfBlock block_of(TablePlacement const& at, TableSpec const& spec) const {
    bool const by_rows = at.sharding == Sharding::row_wise;
    if (!by_rows && at.sharding != Sharding::column_wise) {
      return {0, 0};
    }
    auto const number = std::ranges::find(at.ranks, rank_.rank()) - at.ranks.begin();
    auto const begin =
        batch_parts(by_rows ? spec.rows : spec.width,
                    static_cast<int>(at.ranks.size()))[static_cast<std::size_t>(number)]
            .begin;
    return by_rows ? FirstOfBlock{begin, 0} : FirstOfBlock{0, begin};
  }
  void add(std::vector<TableSpec> const& specs, comm::Communicator<R> const& communicator) {
    std::int64_t const first =
        tables_.empty() ? 0 : tables_.back().first_column + tables_.back().tables.width();
    SomeTables some{specs,
                    first,
                    ShardedTables<R>(specs,
                                     communicator,
                                     {.most_samples = how_.samples,
                                      .seed = 5,
                                      .reduction = comm::Reduction::sum,
                                      .sent = how_.sent},
                                     plan_of(specs, how_.shardings, rank_.size()))};
    some.tables.add_to(optimizer_);
    for (int micro = 0; micro < how_.micro_batches; ++micro) {
      some.bags.emplace_back(rank_.device, specs, how_.samples, part_, false);
      some.gradients.emplace_back(rank_.device, Shape{part_.rows(), some.tables.width()});
    }
    tables_.push_back(std::move(some));
  }
  void put(int step) {
    for (int micro = 0; micro < how_.micro_batches; ++micro) {
      auto const batch = step * how_.micro_batches + micro;
      auto const given = gradients_of_batch(how_, batch);
      auto const lists = bags_of_batch(how_, batch);
      std::size_t first = 0;
      for (auto& some : tables_) {
        auto const m = static_cast<std::size_t>(micro);
        auto const begin = lists.begin() + static_cast<std::ptrdiff_t>(first);
        some.bags[m].put({begin, begin + std::ssize(some.specs)});
        first += some.specs.size();
        std::vector<float> own;
        for (auto s = part_.begin; s < part_.end; ++s) {
          auto const from = given.pooled.begin() + s * how_.width() + some.first_column;
          own.insert(own.end(), from, from + some.tables.width());
        }
        if (part_.rows() > 0) {
          copy(some.gradients[m],
               to_device(rank_.device, own, {part_.rows(), some.tables.width()}));
        }
      }
      // The gradient of the dense parameter is the sum over the ranks.
      auto dense = given.dense;
      for (auto& element : dense) {
        element *= rank_.rank() == 0 ? 1.0F : 0.0F;
      }
      copy(of_dense_.rows(micro, micro + 1), to_device(rank_.device, dense, {1, how_.dense}));
    }
  }
  void step() {
    for (int micro = 0; micro < how_.micro_batches; ++micro) {
      std::optional<StreamScope<R>> scope;
      if (pool_) {
        scope.emplace((*pool_)[how_.groups - 1], StreamScopeOptions{.include_grad = true});
      }
      auto const of_dense = of_dense_.rows(micro, micro + 1).reshaped({how_.dense});
      tape_.without_gradient(of_dense);
      auto loss = ops::sum(tape_, ops::multiply(tape_, weight_, of_dense), 0);
      for (auto const& some : tables_) {
        auto const m = static_cast<std::size_t>(micro);
        auto const pooled = some.tables.lookup(tape_, some.bags[m].bags());
        tape_.without_gradient(some.gradients[m]);
        auto const products = ops::multiply(tape_, pooled, some.gradients[m]);
        loss = ops::add(tape_, loss, ops::sum(tape_, ops::sum(tape_, products, 0), 0));
      }
      scope.reset();
      if (micro + 1 == how_.micro_batches) {
        parallel_.backward(tape_, loss);
      } else {
        tape_.backward(loss);
      }
      if (optimizer_.step(tape_)) {
        tape_.clear();
      }
    }
  }

  Rank<R> rank_;
  HowClipped how_;
  BatchPart part_;
  Parameters<R> parameters_;
  Tensor<float, R> weight_;
  DataParallel<R> parallel_;
  comm::Communicator<R> second_;
  Optimizer<R> optimizer_;
  GradientTape<R> tape_;
  Tensor<float, R> of_dense_;
  std::vector<SomeTables> tables_;
  std::optional<StreamPool<R>> pool_;
};

template <Runtime R>
[[nodiscard]] ClippedOnRanks clipped_on_ranks(int ranks, HowClipped const& how) {
  std::mutex mutex;
  ClippedOnRanks found;
  auto const with_tables = [&](Clipped& state) {
    for (auto const& spec : how.specs) {
      state.tables.emplace_back(static_cast<std::size_t>(spec.rows * spec.width), std::nan(""));
    }
  };
  with_tables(found.before);
  with_tables(found.after);
  found.bits.resize(static_cast<std::size_t>(ranks));
  found.norms.resize(static_cast<std::size_t>(ranks));
  on_kept_ranks<R>(ranks, [&](Rank<R> const& rank) {
    ClippedRank<R> trained(rank, how);
    auto const number = static_cast<std::size_t>(rank.rank());
    auto const store = [&](Clipped& state) {
      auto const weight = trained.weight();
      std::vector<float> own(weight);
      std::lock_guard const guard(mutex);
      state.dense.assign(weight.begin(), weight.end());
      trained.visit_parts([&](std::size_t t,
                              auto const& first,
                              std::int64_t columns,
                              std::vector<float> const& elements) {
        for (std::size_t i = 0; i < elements.size(); ++i) {
          auto const row = first.row + static_cast<std::int64_t>(i) / columns;
          auto const column = first.column + static_cast<std::int64_t>(i) % columns;
          state.tables[t][static_cast<std::size_t>(row * how.specs[t].width + column)] =
              static_cast<double>(elements[i]);
        }
        own.insert(own.end(), elements.begin(), elements.end());
      });
      found.bits[number] = bits_of(own);
    };
    store(found.before);
    found.norms[number] = trained.train();
    store(found.after);
    EXPECT_EQ(trained.skipped(), how.bad_step >= 0 && how.skips ? 1 : 0);
  });
  found.norms.resize(static_cast<std::size_t>(std::min(ranks, most_ranks<R>())));
  return found;
}

inline void expect_clipped(ClippedOnRanks const& found, HowClipped const& how) {
  auto const expected = clipped_reference(how, found.before);
  for (auto const& norms : found.norms) {
    EXPECT_EQ(norms, found.norms[0]) << "ranks differ";
  }
  for (int step = 0; step < kClippedSteps; ++step) {
    auto const s = static_cast<std::size_t>(step);
    if (step == how.bad_step) {
      EXPECT_FALSE(std::isfinite(found.norms[0][s]));
    } else {
      EXPECT_NEAR(found.norms[0][s], expected.norms[s], 1e-5 * expected.norms[s]);
    }
  }
  auto const expect_all_near = [](std::vector<double> const& values,
                                  std::vector<double> const& others,
                                  std::string const& name) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      ASSERT_NEAR(values[i], others[i], 3e-5) << name << ", element " << i;
    }
  };
  expect_all_near(found.after.dense, expected.dense, "dense");
  for (std::size_t t = 0; t < how.specs.size(); ++t) {
    expect_all_near(found.after.tables[t], expected.tables[t], how.specs[t].name);
  }
}

}  // namespace msstream::testing
