// SPDX-License-Identifier: Apache-2.0
// Programs that mix objects of two runtimes in one call. The script two_runtimes.sh expects the
// compiler to refuse each marked line, and to accept the file without them.
#include <msstream/msstream.hpp>
#include <msstream/runtime/sim.hpp>

namespace ms = msstream;
using ms::Host;
using ms::Sim;

using OnHost = ms::Tensor<float, Host>;
using OnSim = ms::Tensor<float, Sim>;

void operation_on_tensors_of_two_runtimes(OnHost const& on_host, OnSim const& on_sim) {
  auto const work = [](auto) {};
  ms::issue("one runtime", ms::reads(on_host), ms::writes(on_host), work);
  ms::issue("one runtime", ms::reads(on_sim), ms::writes(on_sim), work);
  ms::issue("two runtimes", ms::reads(on_host), ms::writes(on_sim), work);  // refused
  ms::issue("two runtimes", ms::reads(on_sim), ms::writes(on_host), work);  // refused
}

void list_of_tensors_of_two_runtimes(OnHost const& on_host, OnSim const& on_sim) {
  (void)ms::reads(on_host, on_host);
  (void)ms::reads(on_host, on_sim);                    // refused
  (void)ms::writes(on_host, on_sim);                   // refused
  (void)ms::writes(on_host, ms::accumulates(on_sim));  // refused
}

void raw_memory_of_another_runtime(ms::Device<Sim> const& sim,
                                   OnHost const& on_host,
                                   OnSim const& on_sim) {
  float const* const memory = on_sim.data();
  (void)ms::reads(on_sim, ms::raw_memory(sim, memory, 1));
  (void)ms::reads(on_host, ms::raw_memory(sim, memory, 1));  // refused
}

void operation_of_the_library(OnHost const& on_host, OnSim const& on_sim) {
  (void)ms::ops::add(on_host, on_host);
  (void)ms::ops::add(on_host, on_sim);  // refused
}

void copy_between_runtimes(OnHost const& on_host,
                           OnSim const& on_sim,
                           ms::PinnedArray<float, Host> const& staged) {
  ms::copy(on_host, on_host);
  ms::copy(on_host, staged);
  ms::copy(staged, on_host);
  ms::copy(on_host, on_sim);  // refused
  ms::copy(on_sim, staged);   // refused
  ms::copy(staged, on_sim);   // refused
}

void scope_of_a_group_of_another_runtime(ms::StreamGroup<Host> const& group) {
  ms::StreamScope<Host> const right(group);
  ms::StreamScope<Sim> const wrong(group);  // refused
}

void wait_for_an_event_of_another_runtime(ms::Stream<Host> const& stream,
                                          ms::Event<Host> const& right,
                                          ms::Event<Sim> const& wrong) {
  stream.wait(right);
  stream.wait(wrong);  // refused
}

void holder_of_another_runtime(ms::Stream<Host> const& stream,
                               ms::Stream<Sim> const& other,
                               OnHost const& on_host,
                               OnSim const& on_sim) {
  ms::TensorHolder<Host> holder(stream);
  holder.hold(on_host);
  holder.hold(on_sim);                             // refused
  ms::TensorHolder<Host> const of_another(other);  // refused
  ms::TensorHolder const of_both(stream, other);   // refused
}

void device_with_options_of_another_runtime() {
  ms::Device<Host> const right(ms::DeviceOptions<Host>{});
  ms::Device<Host> const wrong(ms::DeviceOptions<Sim>{});  // refused
}

void objects_on_a_device_of_another_runtime(ms::Device<Host> const& host,
                                            ms::Device<Sim> const& sim) {
  OnHost const tensor(host, {4});
  ms::Stream<Host> const stream(host);
  ms::StreamPool<Host> const pool(host);
  ms::PinnedArray<float, Host> const staged(host, 4);
  OnHost const other_tensor(sim, {4});                      // refused
  ms::Stream<Host> const other_stream(sim);                 // refused
  ms::StreamPool<Host> const other_pool(sim);               // refused
  ms::PinnedArray<float, Host> const other_staged(sim, 4);  // refused
  ms::Device<Host> const other_device(sim);                 // refused
}

/// Wraps an untyped tensor. The constructor without checks is for the library only: `{}` does not
/// name the type of its first argument.
void tensor_of_an_unknown_type(ms::detail::AnyTensor const& any) {
  OnHost const checked(any);
  OnHost const unchecked({}, any);  // refused
}
