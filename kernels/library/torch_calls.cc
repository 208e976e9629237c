// The operators of torch_operators.cc as functions of a Python module: gelu(x, form), softmax(x).
//
// torch.ops calls an operator through its schema, which costs the host about a microsecond and a
// half. These functions know their arguments. They return NotImplemented where torch.ops must see
// the call: for a subclass of Tensor, and under a mode that intercepts every function. The caller
// (tools/overlapbench/measurement/torch_operators.py) then calls torch.ops.
#include <Python.h>

// Python.h must come first, as its documentation says.
#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <string>

namespace {

using at::Tensor;
using Form = c10::string_view;

// Calls the operator without Python's lock: a launch may wait for room in the device's queue.
template <class... Types, class... Arguments>
PyObject* Call(const c10::TypedOperatorHandle<Tensor(Types...)>& called, Arguments&&... arguments) {
  Tensor result;
  {
    const pybind11::gil_scoped_release unlocked;
    result = called.call(std::forward<Arguments>(arguments)...);
  }
  return THPVariable_Wrap(std::move(result));
}

template <class Signature>
auto Operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

bool IsPlainTensor(PyObject* object) {
  return THPVariable_CheckExact(object) && !at::impl::torch_function_mode_enabled();
}

PyObject* Gelu(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  static const auto gelu = Operator<Tensor(const Tensor&, Form)>("overlapbench::gelu");
  if (count != 2 || !PyUnicode_Check(arguments[1]) || !IsPlainTensor(arguments[0]))
    Py_RETURN_NOTIMPLEMENTED;
  Py_ssize_t length = 0;
  const char* const form = PyUnicode_AsUTF8AndSize(arguments[1], &length);
  if (form == nullptr) return nullptr;
  return Call(gelu, THPVariable_Unpack(arguments[0]), Form(form, static_cast<size_t>(length)));
  END_HANDLE_TH_ERRORS
}

PyObject* Softmax(PyObject* /*module*/, PyObject* x) {
  HANDLE_TH_ERRORS
  static const auto softmax = Operator<Tensor(const Tensor&)>("overlapbench::softmax");
  if (!IsPlainTensor(x)) Py_RETURN_NOTIMPLEMENTED;
  return Call(softmax, THPVariable_Unpack(x));
  END_HANDLE_TH_ERRORS
}

}  // namespace

PyMODINIT_FUNC PyInit_overlapbench_torch_calls() {
  static PyMethodDef functions[] = {
      {"gelu", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Gelu)), METH_FASTCALL,
       "gelu(x, form): torch.ops.overlapbench.gelu"},
      {"softmax", Softmax, METH_O, "softmax(x): torch.ops.overlapbench.softmax"},
      {nullptr, nullptr, 0, nullptr}};
  static PyModuleDef module = {PyModuleDef_HEAD_INIT,
                               "overlapbench_torch_calls",
                               nullptr,
                               -1,
                               functions,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr};
  return PyModule_Create(&module);
}
