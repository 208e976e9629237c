// The kernels as PyTorch's operators: gelu, gelu_backward and softmax of torch.ops.overlapbench.
// tools/overlapbench/torch_operators.py compiles this file against the installed PyTorch, and is
// the manual.
//
// A kernel is registered for CUDA; what it returns, without computing it, for Meta, which
// torch.compile asks; and for AutogradCUDA how it is differentiated. The last two are C++ as well,
// since in Python they would cost every call more host time than the launch.
#include <ATen/Tensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "overlapbench_kernels.h"

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
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

Tensor ResultLike(const Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); }

void* StreamOf(c10::Device device) {
  static const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
  return cuda.getStream(device).native_handle();
}

// Memory, zero at first, that no softmax on another stream uses. While a graph is captured it is
// new, and zeroing it is a part of the graph. What is kept is never freed: when the process ends,
// CUDA may be gone.
Tensor Workspace(const Tensor& x, void* stream) {
  const auto make = [&] {
    return at::zeros({OVERLAPBENCH_SOFTMAX_WORKSPACE_BYTES}, x.options().dtype(at::kByte));
  };
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
  const Tensor workspace = Workspace(x, stream);
  RequireSuccess(overlapbench_softmax_forward(
      OVERLAPBENCH_TRUSTED_DEVICE, type, input.const_data_ptr(), output.mutable_data_ptr(),
      x.numel() / columns, columns, workspace.mutable_data_ptr(), stream));
  return output;
}

// ---- What torch.compile asks: the result without its values.

Tensor GeluMeta(const Tensor& x, Form /*form*/) { return ResultLike(x); }
Tensor GeluBackwardMeta(const Tensor& /*grad_output*/, const Tensor& x, Form /*form*/) {
  return ResultLike(x);
}

// ---- Derivatives. The operators are called by name, so that whatever traces them sees them.

template <class Signature>
auto Operator(const char* name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("overlapbench::") + name).c_str(), "")
      .template typed<Signature>();
}

Tensor CallGelu(const Tensor& x, Form form) {
  static const auto gelu = Operator<Tensor(const Tensor&, Form)>("gelu");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return gelu.call(x, form);
}

Tensor CallSoftmax(const Tensor& x) {
  static const auto softmax = Operator<Tensor(const Tensor&)>("softmax");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return softmax.call(x);
}

struct DifferentiableGelu : public Function<DifferentiableGelu> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::string& form) {
    context->saved_data["form"] = form;
    context->save_for_backward({x});
    return CallGelu(x, form);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grad_output) {
    static const auto gelu_backward =
        Operator<Tensor(const Tensor&, const Tensor&, Form)>("gelu_backward");
    const Tensor x = context->get_saved_variables()[0];
    const std::string form = context->saved_data["form"].toStringRef();
    return {gelu_backward.call(grad_output[0], x, form), {}};
  }
};

struct DifferentiableSoftmax : public Function<DifferentiableSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    Tensor y = CallSoftmax(x);
    context->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grad_output) {
    const Tensor y = context->get_saved_variables()[0];
    return {at::_softmax_backward_data(grad_output[0], y, -1, y.scalar_type())};
  }
};

bool NeedsGradient(const Tensor& x) { return x.requires_grad() && at::GradMode::is_enabled(); }

Tensor GeluAutograd(const Tensor& x, Form form) {
  return NeedsGradient(x) ? DifferentiableGelu::apply(x, std::string(form)) : CallGelu(x, form);
}

Tensor SoftmaxAutograd(const Tensor& x) {
  return NeedsGradient(x) ? DifferentiableSoftmax::apply(x) : CallSoftmax(x);
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
  library.impl("softmax", &ResultLike);
}

TORCH_LIBRARY_IMPL(overlapbench, AutogradCUDA, library) {
  library.impl("gelu", &GeluAutograd);
  library.impl("softmax", &SoftmaxAutograd);
}
