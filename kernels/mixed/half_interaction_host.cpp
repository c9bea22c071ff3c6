// SPDX-License-Identifier: Apache-2.0
#include "common/widened_host.hpp"
#include "dense/interaction_host.hpp"
#include "mixed/half_interaction.hpp"

namespace msstream::ops::kernels {

template <HalfElement T>
void dot_interaction(HostStream stream, InteractionArgsOf<T> const& args) {
  stream.run([args] {
    auto const outputs = args.batch * (args.width + pairs_of(args.features + 1));
    Widened const dense(args.dense, args.batch * args.width, dtype_of<T>);
    Widened const embeddings(args.embeddings, args.batch * args.features * args.width, dtype_of<T>);
    Narrowed output(args.output, outputs, dtype_of<T>);
    compute_dot_interaction(
        {dense.data(), embeddings.data(), output.data(), args.batch, args.features, args.width});
  });
}

template <HalfElement T>
void dot_interaction_gradient(HostStream stream, InteractionGradientArgsOf<T> const& args) {
  stream.run([args] {
    auto const dense_count = args.batch * args.width;
    auto const embeddings_count = dense_count * args.features;
    auto const outputs = args.batch * (args.width + pairs_of(args.features + 1));
    Widened const dense(args.dense, dense_count, dtype_of<T>);
    Widened const embeddings(args.embeddings, embeddings_count, dtype_of<T>);
    Widened const output_gradient(args.output_gradient, outputs, dtype_of<T>);
    bool const of_dense = args.dense_gradient != nullptr;
    bool const of_embeddings = args.embeddings_gradient != nullptr;
    Narrowed dense_gradient(args.dense_gradient, of_dense ? dense_count : 0, dtype_of<T>);
    Narrowed embeddings_gradient(
        args.embeddings_gradient, of_embeddings ? embeddings_count : 0, dtype_of<T>);
    compute_dot_interaction_gradient({dense.data(),
                                      embeddings.data(),
                                      output_gradient.data(),
                                      of_dense ? dense_gradient.data() : nullptr,
                                      of_embeddings ? embeddings_gradient.data() : nullptr,
                                      args.batch,
                                      args.features,
                                      args.width});
  });
}

template void dot_interaction(HostStream, InteractionArgsOf<float16> const&);
template void dot_interaction(HostStream, InteractionArgsOf<bfloat16> const&);
template void dot_interaction_gradient(HostStream, InteractionGradientArgsOf<float16> const&);
template void dot_interaction_gradient(HostStream, InteractionGradientArgsOf<bfloat16> const&);

}  // namespace msstream::ops::kernels
