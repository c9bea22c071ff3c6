// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "runtime/gate.hpp"
#include "stream/dependency_tracker.hpp"
#include "stream/stream.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/step/prefetch.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class PrefetchTest : public OpsTest<R> {
 protected:
  using Batch = Tensor<float, R>;

  /// Uploads the next of `batches` batches; all elements of a batch are its number. Returns nothing
  /// after the last batch.
  std::optional<Batch> upload(int batches) {
    if (uploads_ == batches) {
      ++calls_at_end_;
      return std::nullopt;
    }
    // Keeps the pinned memory of each batch, because releasing it may record an event.
    auto const& staged = staged_.emplace_back(this->device(), 100);
    std::ranges::fill(staged.elements(), static_cast<float>(uploads_++));
    Batch batch(this->device(), {100}, StreamKind::h2d);
    copy(batch, staged);
    return batch;
  }
  void TearDown() override {
    staged_.clear();
    OpsTest<R>::TearDown();
  }

  std::vector<PinnedArray<float, R>> staged_;
  int uploads_ = 0;
  int calls_at_end_ = 0;
};
TYPED_TEST_SUITE(PrefetchTest, Runtimes, RuntimeNames);

TYPED_TEST(PrefetchTest, gives_every_batch_in_order_and_keeps_so_many_under_way) {
  StreamPool pool(this->device(), {.groups = 2});
  for (int const ahead : {1, 2, 5}) {
    this->uploads_ = 0;
    this->calls_at_end_ = 0;
    Prefetch batches(pool[1], [this] { return this->upload(4); }, {.ahead = ahead});
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(this->uploads_, std::min(i + ahead, 4));
      auto const batch = batches.next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(this->uploads_, std::min(i + 1 + ahead, 4)) << "before next() returns";
      EXPECT_EQ(to_host(*batch), Floats(100, static_cast<float>(i)));
    }
    EXPECT_FALSE(batches.next());
    EXPECT_FALSE(batches.next());
    EXPECT_EQ(this->calls_at_end_, 1) << "asked once whether there are more";
  }
}

TYPED_TEST(PrefetchTest, what_an_upload_throws_comes_in_the_place_of_its_batch) {
  StreamPool pool(this->device(), {.groups = 1});
  for (int const ahead : {1, 3}) {
    this->uploads_ = 0;
    int calls = 0;
    Prefetch batches(pool[0],
                     [&] {
                       if (++calls == 3) {
                         throw std::runtime_error("the third");
                       }
                       return this->upload(4);
                     },
                     {.ahead = ahead});
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(to_host(*batches.next()).front(), static_cast<float>(i));
    }
    EXPECT_EQ(calls, 3);
    EXPECT_THROW((void)batches.next(), std::runtime_error);
    for (int i = 2; i < 4; ++i) {
      EXPECT_EQ(to_host(*batches.next()).front(), static_cast<float>(i));
    }
    EXPECT_FALSE(batches.next());
  }
}

TYPED_TEST(PrefetchTest, work_on_a_batch_does_not_wait_for_the_next_copies) {
  StreamPool pool(this->device(), {.groups = 1});
  auto& tracker = *this->device().tracker();
  auto& compute = pool[0].compute().engine().slot();
  auto& copies = pool[0].h2d().engine().slot();
  static_cast<void>(ops::scale(*this->upload(4), 2.0F));  // loads the kernel
  Gate gate;                                              // keeps later work incomplete
  // The queue of the h2d stream is [wait for the test's gate, copy of batch 0, copy of batch 1];
  // that of the compute stream is [work on batch 0].
  gate.hold(pool[0].h2d());
  std::vector<order::Position> copied;
  Prefetch batches(pool[0], [&] {
    auto batch = this->upload(4);
    copied.push_back({copies.index, copies.reserved.load()});
    return batch;
  });
  auto const batch = batches.next();
  StreamScope const scope(pool[0]);
  auto const doubled = ops::scale(*batch, 2.0F);
  ASSERT_EQ(copied.size(), 2U);
  EXPECT_NE(copied[0], copied[1]) << "copies go to the group";
  EXPECT_TRUE(tracker.covers(compute, copied[0]));
  EXPECT_FALSE(tracker.covers(compute, copied[1]));
}

TYPED_TEST(PrefetchTest, refuses_to_be_less_than_one_ahead) {
  StreamPool pool(this->device(), {.groups = 1});
  for (int const ahead : {0, -1}) {
    expect_refused(
        [&] { Prefetch batches(pool[0], [this] { return this->upload(1); }, {.ahead = ahead}); },
        "Prefetch: ahead is ",
        ahead);
  }
}

}  // namespace
}  // namespace msstream::testing
