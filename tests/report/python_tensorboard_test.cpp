// SPDX-License-Identifier: Apache-2.0
#include "base/python.hpp"

#include <msstream/report/tensorboard.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace msstream::testing {
namespace {

class PythonTensorBoard : public PythonTest {};

TEST_F(PythonTensorBoard, tensorboard_reads_the_events) {
  report::TensorBoardWriter board(folder_.path(), {.now = [] { return 1'700'000'000.5; }});
  for (int step = 1; step <= 3; ++step) {
    board.scalar("loss/train", 0.5 / step, step);
  }
  board.text("options", "batch **512**, grüße", 0);
  std::vector<float> values;
  for (int i = -50; i <= 50; ++i) {
    values.push_back(static_cast<float>(i) / 100.0F);
  }
  board.histogram("weights", values, 7);
  board.flush();
  // The first reader takes the events as they are, the second one as the plugins of TensorBoard
  // show them.
  EXPECT_EQ(run(R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.util import tensor_util
plain = EventAccumulator(sys.argv[1])
plain.Reload()
print(plain.file_version, [(event.wall_time, event.step, event.value) for event in plain.Scalars("loss/train")])
histogram = plain.Histograms("weights")[0]
value = histogram.histogram_value
print(histogram.step, round(value.min, 6), round(value.max, 6), value.num, round(value.sum, 6), sum(value.bucket),
      len(value.bucket) == len(value.bucket_limit), sorted(value.bucket_limit) == list(value.bucket_limit))
shown = plugin_event_accumulator.EventAccumulator(sys.argv[1])
shown.Reload()
for tag in shown.Tags()["tensors"]:
    print(tag, shown.SummaryMetadata(tag).plugin_data.plugin_name, len(shown.Tensors(tag)))
print(tensor_util.make_ndarray(shown.Tensors("options")[0].tensor_proto)[0].decode())
)",
                folder_.path()),
            "2.0 [(1700000000.5, 1, 0.5), (1700000000.5, 2, 0.25), "
            "(1700000000.5, 3, 0.1666666716337204)]\n"
            "7 -0.5 0.5 101.0 0.0 101.0 True True\n"
            "loss/train scalars 3\n"
            "options text 1\n"
            "weights histograms 1\n"
            "batch **512**, grüße\n");
}

}  // namespace
}  // namespace msstream::testing
