// The kernels as PyTorch's operators: gelu, gelu_backward and softmax of torch.ops.overlapbench.
// tools/overlapbench/measurement/torch_operators.py compiles this file against the installed
// PyTorch, and is the manual.
//
// Each operator has a kernel for CUDA; for Meta, which torch.compile uses, a function that gives
// its result's shape without computing it; and for AutogradCUDA, its derivative. The last two are
// C++ as well, since in Python they would cost every call more host time than the launch. For the
// same reason results come straight from the allocator, and derivatives are nodes as PyTorch's own
// are: a torch::autograd::Function costs a call about a microsecond more. Compiled autograd, which
// is experimental, refuses such nodes: the interface that it requires of them is not public.
#include <ATen/Tensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "overlapbench_kernels.h"

namespace {

using at::Tensor;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using Form = c10::string_view;

int32_t TypeOf(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return OVERLAPBENCH_FLOAT32;
    case at::kHalf:
      return OVERLAPBENCH_FLOAT16;
    case at::kBFloat16:
      return OVERLAPBENCH_BFLOAT16;
    default:
      TORCH_CHECK_TYPE(false, "a tensor is ", tensor.scalar_type(),
                       ", must be Float, Half or BFloat16");
  }
}

int32_t FormOf(Form form) {
  TORCH_CHECK_VALUE(form == "tanh" || form == "erf", "form is '", form,
                    "', must be 'tanh' or 'erf'");
  return form == "tanh" ? OVERLAPBENCH_GELU_TANH : OVERLAPBENCH_GELU_ERF;
}

void RequireSuccess(int32_t status) {
  TORCH_CHECK(status == OVERLAPBENCH_OK, "overlapbench: ", overlapbench_last_error());
}

Tensor ResultLike(const Tensor& x) {
  return at::detail::empty_cuda(x.sizes(), x.scalar_type(), x.device(),
                                at::MemoryFormat::Contiguous);
}

void* StreamOf(c10::Device device) {
  static const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
  return cuda.getStream(device).native_handle();
}

// A workspace, zero at first, that no softmax on another stream uses; none for rows that need none.
// While a graph is captured it is new, and zeroing it is part of the graph. Kept workspaces are
// never freed: when the process ends, CUDA may be gone.
Tensor Workspace(const Tensor& x, int32_t type, void* stream) {
  int64_t bytes = 0;
  RequireSuccess(overlapbench_softmax_workspace(type, x.size(-1), &bytes));
  if (bytes == 0) return {};
  const auto make = [&] { return at::zeros({bytes}, x.options().dtype(at::kByte)); };
  int32_t capturing = 0;
  RequireSuccess(overlapbench_stream_is_capturing(stream, &capturing));
  if (capturing != 0) return make();
  static std::mutex mutex;
  static auto& kept = *new std::map<std::pair<int, void*>, Tensor>;
  const std::lock_guard lock(mutex);
  Tensor& workspace = kept[{x.get_device(), stream}];
  if (!workspace.defined()) workspace = make();
  return workspace;
}

Tensor Gelu(const Tensor& x, Form form) {
  const int32_t form_code = FormOf(form);
  const int32_t type = TypeOf(x);
  const Tensor input = x.contiguous();
  Tensor output = ResultLike(x);
  if (x.numel() == 0) return output;
  const c10::DeviceGuard guard(x.device());
  RequireSuccess(overlapbench_gelu_forward(OVERLAPBENCH_TRUSTED_DEVICE, type, form_code,
                                           input.const_data_ptr(), output.mutable_data_ptr(),
                                           x.numel(), StreamOf(x.device())));
  return output;
}

Tensor GeluBackward(const Tensor& grad_output, const Tensor& x, Form form) {
  const int32_t form_code = FormOf(form);
  const int32_t type = TypeOf(x);
  TORCH_CHECK_VALUE(grad_output.scalar_type() == x.scalar_type() &&
                        grad_output.sizes() == x.sizes() && grad_output.device() == x.device(),
                    "grad_output must have the type, shape and device of x");
  const Tensor input = x.contiguous();
  const Tensor grad = grad_output.contiguous();
  Tensor output = ResultLike(x);
  if (x.numel() == 0) return output;
  const c10::DeviceGuard guard(x.device());
  RequireSuccess(overlapbench_gelu_backward(
      OVERLAPBENCH_TRUSTED_DEVICE, type, form_code, input.const_data_ptr(), grad.const_data_ptr(),
      output.mutable_data_ptr(), x.numel(), StreamOf(x.device())));
  return output;
}

Tensor Softmax(const Tensor& x) {
  const int32_t type = TypeOf(x);
  TORCH_CHECK_VALUE(x.dim() > 0, "x has no dimension to take the softmax over");
  const Tensor input = x.contiguous();
  Tensor output = ResultLike(x);
  if (x.numel() == 0) return output;
  const int64_t columns = x.size(-1);
  const c10::DeviceGuard guard(x.device());
  void* const stream = StreamOf(x.device());
  const Tensor workspace = Workspace(x, type, stream);
  RequireSuccess(overlapbench_softmax_forward(
      OVERLAPBENCH_TRUSTED_DEVICE, type, input.const_data_ptr(), output.mutable_data_ptr(),
      x.numel() / columns, columns, workspace.defined() ? workspace.mutable_data_ptr() : nullptr,
      stream));
  return output;
}

// ---- For torch.compile: the result without its values.

Tensor SoftmaxMeta(const Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); }
Tensor GeluMeta(const Tensor& x, Form /*form*/) { return SoftmaxMeta(x); }
Tensor GeluBackwardMeta(const Tensor& /*grad_output*/, const Tensor& x, Form /*form*/) {
  return SoftmaxMeta(x);
}

// ---- Derivatives. The operators are called by name, so that tracers see them.

template <class Signature>
auto Operator(const char* name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("overlapbench::") + name).c_str(), "")
      .template typed<Signature>();
}

// Calls the operator's kernel that is registered below its derivative.
template <class Signature, class... Arguments>
Tensor CallBelow(c10::DispatchKeySet keys, const c10::TypedOperatorHandle<Signature>& called,
                 const Tensor& x, Arguments... arguments) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return called.redispatch(keys & c10::after_autograd_keyset, x, arguments...);
}

// PyTorch 2.15 has nodes that count their own references, earlier ones have shared pointers to
// them.
template <class Node>
constexpr bool kCountsItself = std::is_base_of_v<c10::intrusive_ptr_target, Node>;

template <class Node, class... Arguments>
auto NewNode(Arguments&&... arguments) {
  if constexpr (kCountsItself<Node>) {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  } else {
    const auto deleter = [](Node* node) { deleteNode(node); };  // torch::autograd's
    return std::shared_ptr<Node>(new Node(std::forward<Arguments>(arguments)...), deleter);
  }
}

template <class Node>
auto PointerTo(Node* node) {
  if constexpr (kCountsItself<Node>) {
    return c10::intrusive_ptr<Node>::unsafe_reclaim_from_nonowning(node);
  } else {
    return node->shared_from_this();
  }
}

// The node of an operator with one input in the graph of derivatives. It keeps one tensor.
class Derivative : public torch::autograd::Node {
 public:
  // Made before the forward pass, as in PyTorch: what follows may change `x` in place.
  explicit Derivative(const Tensor& x) { set_next_edges(torch::autograd::collect_next_edges(x)); }
  void Keep(const Tensor& tensor, bool is_output) { kept_ = SavedVariable(tensor, is_output); }

  variable_list apply(variable_list&& grads) override {
    const Tensor kept = kept_.unpack(PointerTo<torch::autograd::Node>(this));
    if (!grads[0].defined()) return {Tensor()};
    return {Of(grads[0], kept)};
  }
  void release_variables() override { kept_.reset_data(); }

 protected:
  // The gradient of the input, by that of the output.
  [[nodiscard]] virtual Tensor Of(const Tensor& grad, const Tensor& kept) const = 0;

 private:
  SavedVariable kept_;
};

class GeluDerivative : public Derivative {
 public:
  GeluDerivative(const Tensor& x, Form form) : Derivative(x), form_(form) {}
  [[nodiscard]] std::string name() const override { return "OverlapbenchGeluBackward"; }

 protected:
  [[nodiscard]] Tensor Of(const Tensor& grad, const Tensor& x) const override {
    static const auto gelu_backward =
        Operator<Tensor(const Tensor&, const Tensor&, Form)>("gelu_backward");
    return gelu_backward.call(grad, x, form_);
  }

 private:
  std::string form_;
};

class SoftmaxDerivative : public Derivative {
 public:
  using Derivative::Derivative;
  [[nodiscard]] std::string name() const override { return "OverlapbenchSoftmaxBackward"; }

 protected:
  [[nodiscard]] Tensor Of(const Tensor& grad, const Tensor& y) const override {
    return at::_softmax_backward_data(grad, y, -1, y.scalar_type());
  }
};

bool NeedsGradient(const Tensor& x) { return x.requires_grad() && at::GradMode::is_enabled(); }

Tensor GeluAutograd(c10::DispatchKeySet keys, const Tensor& x, Form form) {
  static const auto gelu = Operator<Tensor(const Tensor&, Form)>("gelu");
  if (!NeedsGradient(x)) return CallBelow(keys, gelu, x, form);
  const auto node = NewNode<GeluDerivative>(x, form);
  node->Keep(x, /*is_output=*/false);
  Tensor y = CallBelow(keys, gelu, x, form);
  torch::autograd::set_history(y, node);
  return y;
}

Tensor SoftmaxAutograd(c10::DispatchKeySet keys, const Tensor& x) {
  static const auto softmax = Operator<Tensor(const Tensor&)>("softmax");
  if (!NeedsGradient(x)) return CallBelow(keys, softmax, x);
  const auto node = NewNode<SoftmaxDerivative>(x);
  Tensor y = CallBelow(keys, softmax, x);
  torch::autograd::set_history(y, node);
  node->Keep(y, /*is_output=*/true);
  return y;
}

}  // namespace

TORCH_LIBRARY(overlapbench, library) {
  library.def("gelu(Tensor x, str form='tanh') -> Tensor");
  library.def("gelu_backward(Tensor grad_output, Tensor x, str form='tanh') -> Tensor");
  library.def("softmax(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(overlapbench, CUDA, library) {
  library.impl("gelu", &Gelu);
  library.impl("gelu_backward", &GeluBackward);
  library.impl("softmax", &Softmax);
}

TORCH_LIBRARY_IMPL(overlapbench, Meta, library) {
  library.impl("gelu", &GeluMeta);
  library.impl("gelu_backward", &GeluBackwardMeta);
  library.impl("softmax", &SoftmaxMeta);
}

TORCH_LIBRARY_IMPL(overlapbench, AutogradCUDA, library) {
  library.impl("gelu", &GeluAutograd);
  library.impl("softmax", &SoftmaxAutograd);
}
