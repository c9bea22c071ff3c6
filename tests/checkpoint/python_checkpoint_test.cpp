// SPDX-License-Identifier: Apache-2.0
#include "base/python.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

class PythonCheckpoint : public PythonTest {};

TEST_F(PythonCheckpoint, python_reads_what_is_saved_here) {
  Device<Host> const device;
  checkpoint::Tensors tensors;
  tensors.add("w", to_device(device, std::vector<float>{0, 0.5F, 1, 1.5F, 2, 2.5F}, {2, 3}))
      .add("half", to_device(device, std::vector<float16>{from_float<float16>(1.5F)}, {}))
      .add("brain", to_device(device, std::vector<bfloat16>{from_float<bfloat16>(-3)}, {1}))
      .add("ids", to_device(device, std::vector<std::int64_t>{1, -2, std::int64_t{1} << 40}, {3}))
      .add("i", to_device(device, std::vector<std::int32_t>{-1}, {1}))
      .add("größe", to_device(device, std::vector<std::uint8_t>{7, 255}, {2}))
      .add("none", zeros<float>(device, {0, 3}));
  auto const path = folder_ / "model.safetensors";
  checkpoint::save(path, tensors, {.step = 12, .metadata = {{"note", "grüße \"\n"}}});
  EXPECT_EQ(run(R"(
import sys
from safetensors import deserialize, safe_open
with safe_open(sys.argv[1], framework="np") as file:
    print(sorted(file.metadata().items()))
    for name in ("w", "half", "ids", "i", "größe", "none"):
        values = file.get_tensor(name)
        print(name, values.dtype, values.shape, values.ravel().tolist())
brain = dict(deserialize(open(sys.argv[1], "rb").read()))["brain"]
print(brain["dtype"], brain["shape"], bytes(brain["data"]).hex())
)",
                path),
            "[('note', 'grüße \"\\n'), ('step', '12')]\n"
            "w float32 (2, 3) [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]\n"
            "half float16 () [1.5]\n"
            "ids int64 (3,) [1, -2, 1099511627776]\n"
            "i int32 (1,) [-1]\n"
            "größe uint8 (2,) [7, 255]\n"
            "none float32 (0, 3) []\n"
            "BF16 [1] 40c0\n");
}

TEST_F(PythonCheckpoint, what_python_saves_is_loaded_here) {
  auto const path = folder_ / "model.safetensors";
  static_cast<void>(run(R"(
import sys
import numpy
from safetensors.numpy import save_file
save_file({"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3) / 2,
           "ids": numpy.array([1, -2, 2**40], dtype=numpy.int64),
           "half": numpy.array(1.5, dtype=numpy.float16),
           "wide": numpy.zeros((2, 1), dtype=numpy.float64),
           "flags": numpy.array([True, False, True]),
           "none": numpy.zeros((0, 3), dtype=numpy.float32)},
          sys.argv[1], metadata={"step": "12", "note": "grüße"})
)",
                        path));
  Device<Host> const device;
  auto const w = zeros<float>(device, {2, 3});
  auto const ids = zeros<std::int64_t>(device, {3});
  auto const half = zeros<float16>(device, {});
  checkpoint::Tensors tensors;
  tensors.add("w", w).add("ids", ids).add("half", half).add("none", zeros<float>(device, {0, 3}));
  auto const loaded = checkpoint::load(path, tensors, {.allow_unexpected = true});
  EXPECT_EQ(loaded.step, 12);
  EXPECT_EQ(loaded.metadata, (checkpoint::Metadata{{"note", "grüße"}}));
  EXPECT_THAT(loaded.unexpected, ElementsAre("flags", "wide"));
  EXPECT_THAT(to_host(w), ElementsAre(0, 0.5F, 1, 1.5F, 2, 2.5F));
  EXPECT_THAT(to_host(ids), ElementsAre(1, -2, std::int64_t{1} << 40));
  EXPECT_EQ(to_float(to_host(half)[0]), 1.5F);
}

}  // namespace
}  // namespace msstream::testing
