// SPDX-License-Identifier: Apache-2.0
// The program that printers_test.py debugs: it makes one object of each kind that the printers of
// tools/gdb show, and calls look() with their addresses.
#include <msstream/checkpoint/tensors.hpp>
#include <msstream/msstream.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace ms = msstream;

namespace {

using Host = ms::Host;

/// The objects, in memory that optimisation cannot remove.
struct Objects {
  ms::Device<Host>* device;
  ms::StreamPool<Host>* pool;
  ms::StreamGroup<Host>* group;
  ms::Stream<Host>* stream;
  ms::Event<Host>* event;
  ms::StreamScope<Host>* scope;
  ms::NameScope* name_scope;
  ms::Tensor<float, Host>* matrix;
  ms::Tensor<std::int64_t, Host>* ids;
  ms::Tensor<ms::float16, Host>* halves;
  ms::Tensor<std::uint8_t, Host>* bytes;
  ms::Tensor<float, Host>* empty;
  ms::Tensor<float, Host>* large;
  ms::Tensor<float, Host>* frozen;
  ms::Tensor<float, Host>* moved_from;
  ms::Tensor<float, Host>* in_flight;  ///< a write to it waits
  ms::Tensor<float, Host>* garbage;
  ms::Tensor<float, Host>* zeros;
  ms::Tensor<float, Host>* stray;  ///< its block is an address that the program may not read
  ms::StreamGroup<Host>* garbage_group;
  ms::GradientTape<Host>* garbage_tape;
  ms::checkpoint::Tensors* garbage_checkpoint;
  ms::GradientTape<Host>* tape;
  ms::checkpoint::Tensors* checkpoint;
  ms::PinnedArray<float, Host>* pinned;
  ms::Shape* shape;
  ms::order::Position* position;
  ms::bfloat16* number;
  ms::Device<Host>* many;         ///< of more streams than a printer lists
  ms::Tensor<float, Host>* late;  ///< a write to it waits on the last of these streams
  ms::Stream<Host>* last;         ///< which waits for another one of the last
};

/// The place of the breakpoint.
[[gnu::noinline]] void look(Objects const& objects) {
  asm volatile("" : : "g"(&objects) : "memory");
}

/// Memory for a T that holds `byte` and no T.
template <class T>
T* filled_with(int byte) {
  void* const memory = ::operator new(sizeof(T), std::align_val_t(alignof(T)));
  std::memset(memory, byte, sizeof(T));
  return static_cast<T*>(memory);
}

void run() {
  ms::Device<Host> device;
  ms::StreamPool<Host> pool(device, {.groups = 2});
  ms::NameScope name_scope("tower");
  ms::StreamScope<Host> scope(pool[1], {.include_grad = true});
  ms::Tensor<float, Host> matrix =
      ms::to_device(device, std::vector<float>{1, 2.5, -3, 4, 5, 6}, {2, 3});
  auto ids = ms::to_device(device, std::vector<std::int64_t>{7, -8, 9}, {3});
  ms::Tensor<ms::float16, Host> halves(device, {2});
  halves.data()[0] = ms::from_float<ms::float16>(0.5F);
  halves.data()[1] = ms::from_float<ms::float16>(-2.0F);
  ms::Tensor<std::uint8_t, Host> bytes(device, {2});
  bytes.data()[0] = 200;
  bytes.data()[1] = 65;
  ms::Tensor<float, Host> empty(device, {0, 4});
  ms::Tensor<float, Host> large(device, {1 << 20});
  std::fill_n(large.data(), large.count(), 1.5F);
  ms::Tensor<float, Host> frozen(device, {1});
  frozen.data()[0] = 4;
  frozen.freeze();
  ms::Tensor<float, Host> moved_from(device, {1});
  auto const taken = std::move(moved_from);

  ms::GradientTape<Host> tape(device);
  auto const product = ms::ops::scale(tape, matrix, 2.0F);
  static_cast<void>(product);
  ms::checkpoint::Tensors checkpoint;
  checkpoint.add("tower/weight\n<b>", matrix).add("ids", ids);
  ms::PinnedArray<float, Host> pinned(device, 3);
  pinned.data()[0] = 1;
  pinned.data()[1] = 2;
  pinned.data()[2] = 3;
  auto group = pool[1];
  auto stream = group.compute();
  auto event = stream.record();
  event.synchronize();
  device.default_group().synchronize();
  pool.synchronize();
  ms::Tensor<float, Host> in_flight(device, {2});
  std::fill_n(in_flight.data(), in_flight.count(), 3.0F);
  std::atomic<bool> may_write = false;
  {
    ms::StreamScope<Host> const writing(pool[0]);
    ms::issue("write", ms::writes(in_flight), [&](ms::HostStream on) {
      on.run([&] { may_write.wait(false); });
    });
  }

  ms::Device<Host> many;
  ms::StreamPool<Host> first_half(many, {.groups = 110, .merge_streams = true});
  ms::StreamPool<Host> second_half(many, {.groups = 110, .merge_streams = true});
  ms::Tensor<float, Host> early(many, {1});
  ms::Tensor<float, Host> late(many, {1});
  late.data()[0] = 5;
  auto const when_allowed = [&](ms::HostStream on) { on.run([&] { may_write.wait(false); }); };
  {
    ms::StreamScope<Host> const writing(second_half[107]);
    ms::issue("write", ms::writes(early), when_allowed);
  }
  {
    ms::StreamScope<Host> const writing(second_half[109]);
    ms::issue("write", ms::reads(early), ms::writes(late), when_allowed);
  }
  auto last = second_half[109].compute();

  auto* const stray = filled_with<ms::Tensor<float, Host>>(0);
  std::memcpy(static_cast<void*>(stray), &matrix, sizeof matrix);
  std::uintptr_t const nowhere = 0x10;
  std::memcpy(static_cast<void*>(stray), &nowhere, sizeof nowhere);

  ms::Shape shape{2, 3};
  ms::order::Position position{3, 7};
  auto number = ms::from_float<ms::bfloat16>(1.5F);
  look({.device = &device,
        .pool = &pool,
        .group = &group,
        .stream = &stream,
        .event = &event,
        .scope = &scope,
        .name_scope = &name_scope,
        .matrix = &matrix,
        .ids = &ids,
        .halves = &halves,
        .bytes = &bytes,
        .empty = &empty,
        .large = &large,
        .frozen = &frozen,
        .moved_from = &moved_from,
        .in_flight = &in_flight,
        .garbage = filled_with<ms::Tensor<float, Host>>(0xA5),
        .zeros = filled_with<ms::Tensor<float, Host>>(0),
        .stray = stray,
        .garbage_group = filled_with<ms::StreamGroup<Host>>(0xA5),
        .garbage_tape = filled_with<ms::GradientTape<Host>>(0xA5),
        .garbage_checkpoint = filled_with<ms::checkpoint::Tensors>(0xA5),
        .tape = &tape,
        .checkpoint = &checkpoint,
        .pinned = &pinned,
        .shape = &shape,
        .position = &position,
        .number = &number,
        .many = &many,
        .late = &late,
        .last = &last});
  may_write = true;
  may_write.notify_all();
  pool.synchronize();
}

}  // namespace

int main() {
  run();
}
