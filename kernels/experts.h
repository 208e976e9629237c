// Experts: what one rank computes in a layer of a mixture of experts, on tensors.
//
//   permute   a copy of each token for each of its choices, in the order in which they are sent
//   experts   d = a·Wₑ for the rows that have come for each of this rank's experts
//   sum       the weighted sum of what has come back for each token
//
// Routing (kernels/routing.h) says which rows these are. Between these steps, an all-to-all
// dispatches the copies, and another one combines the results: it brings them back. A part is a
// micro-batch. An expert is one linear layer of width². Its products are one for each rank that has
// sent it rows, each a call of its own or all of a micro-batch in one (kernels/product_group.h).
// Padding stays zero.
//
// Copies for experts of the same rank stay where they are: these experts read them in `sent`, and
// the sum takes their results from `results`. Moving them would take SMs from the products: a copy
// within a GPU is a kernel, however it is requested.
#pragma once

#include <memory>

#include "kernels/routing.h"
#include "workload/tensor.h"

namespace overlapbench {

struct ExpertLayer {
  std::shared_ptr<const Routing> routing;
  SharedTensor tokens;    // [tokens, width]
  SharedTensor sent;      // [rows of the routing, width], like the next three
  SharedTensor received;  // by the experts' rank, from others
  SharedTensor results;
  SharedTensor returned;  // to the tokens' rank, by others
  SharedTensor weights;   // of this rank's experts: [experts · width, width]
  SharedTensor sums;      // [tokens, width]
  bool in_one_call = false;
};

// `seed`: for inputs that no other work makes.
std::unique_ptr<Workload> MakePermutation(const Machine& machine, const ExpertLayer& layer,
                                          std::uint32_t seed);
std::unique_ptr<Workload> MakeExperts(const Machine& machine, const ExpertLayer& layer,
                                      std::uint32_t seed);
std::unique_ptr<Workload> MakeWeightedSum(const Machine& machine, const ExpertLayer& layer,
                                          std::uint32_t seed);

}  // namespace overlapbench
