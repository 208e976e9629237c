#include "kernels/mlp_oracle.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <string>

#include "kernels/gelu_oracle.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

// ---- the oracle

double Gelu(double z) { return GeluValue(GeluForm::kTanh, z); }
double GeluSlope(double z) { return GeluDerivative(GeluForm::kTanh, z); }

Doubles Fractions(std::uint32_t seed, long count, double scale) {
  Doubles values(count);
  for (long i = 0; i < count; ++i) values[i] = scale * RandomFraction(seed, i);
  return values;
}

// A (m×k) times B (k×n). The innermost loop runs along rows of B and C, so that it is vectorized.
Doubles Times(const double* a, const double* b, long m, long k, long n) {
  Doubles c(m * n);
  for (long row = 0; row < m; ++row) {
    double* c_row = &c[row * n];
    for (long i = 0; i < k; ++i) {
      const double factor = a[row * k + i];
      const double* b_row = b + i * n;
      for (long column = 0; column < n; ++column) c_row[column] += factor * b_row[column];
    }
  }
  return c;
}

Doubles Transposed(const double* matrix, long rows, long columns) {
  Doubles result(rows * columns);
  for (long row = 0; row < rows; ++row) {
    for (long column = 0; column < columns; ++column)
      result[column * rows + row] = matrix[row * columns + column];
  }
  return result;
}

// ---- verification

class HostTensor {
 public:
  HostTensor(Stream& stream, const void* data, long count, Element element)
      : bytes_(count * SizeOf(element)), element_(element) {
    stream.Copy(bytes_.data(), data, bytes_.size());
  }
  double operator[](long index) const { return Load(bytes_.data(), index, element_); }

 private:
  std::vector<std::byte> bytes_;
  Element element_;
};

struct HostTensors {
  HostTensor parameters;
  HostTensor updated;
  HostTensor gradients;
  HostTensor x;
  HostTensor z;
  HostTensor dz;
};

HostTensors Read(Stream& stream, const MlpProblem& problem, Element element,
                 const MlpTensors& tensors, std::chrono::milliseconds timeout) {
  const auto read = [&](const void* data, long count) {
    return HostTensor(stream, data, count, element);
  };
  const long parameters = problem.parameter_count();
  const long rows = problem.layers * problem.row_count();
  HostTensors host{read(tensors.parameters, parameters),
                   read(tensors.updated, parameters),
                   read(tensors.gradients, parameters),
                   read(tensors.x, rows),
                   read(tensors.z, rows),
                   read(tensors.dz, rows + problem.row_count())};
  stream.Synchronize(timeout, "verifying a network");
  return host;
}

// What a check found: the largest error as a share of what is allowed, and whose it is.
struct Finding {
  double share = 0;
  std::string what;

  void Take(double other_share, const std::string& other_what) {
    // Not-a-number is the worst of all.
    if (std::isnan(share) || other_share <= share) return;
    *this = {other_share, other_what};
  }
};

std::string Name(const char* tensor, long layer) {
  return std::string(tensor) + " of layer " + std::to_string(layer);
}

// Compares random elements of each tensor with what their stage makes.
class Stages {
 public:
  Stages(const MlpProblem& problem, const MlpNumbers& numbers, const HostTensors& host)
      : problem_(problem),
        unit_(numbers.Unit(problem)),
        limit_(numbers.StageError(problem).Limit(kSamples)),
        host_(host) {}

  Finding Check() {
    for (long layer = 0; layer < problem_.layers; ++layer) {
      CheckForward(layer);
      CheckBackward(layer);
      CheckUpdate(layer);
    }
    return finding_;
  }
  [[nodiscard]] double limit() const { return limit_; }

 private:
  using Stage = std::function<double(long row, long column)>;

  void CheckForward(long l) {
    const long dim = problem_.dim;
    Compare(Name("Z", l), host_.z, RowsAt(l), problem_.batch, [&](long row, long column) {
      double sum = host_.parameters[problem_.biases_at(l) + column];
      for (long i = 0; i < dim; ++i)
        sum += host_.x[RowsAt(l) + row * dim + i] *
               host_.parameters[problem_.weights_at(l) + i * dim + column];
      return sum;
    });
    if (l + 1 == problem_.layers) return;
    Compare(Name("X", l + 1), host_.x, RowsAt(l + 1), problem_.batch,
            [&](long row, long column) { return Gelu(host_.z[RowsAt(l) + row * dim + column]); });
  }

  // dz holds the input's gradient first, so that dZ of layer l stands at l + 1.
  void CheckBackward(long l) {
    const long dim = problem_.dim;
    const long batch = problem_.batch;
    const std::string what = l == 0 ? "the input's gradient" : Name("dZ", l - 1);
    Compare(what, host_.dz, RowsAt(l), batch, [&](long row, long column) {
      double sum = 0;
      for (long j = 0; j < dim; ++j)
        sum += host_.dz[RowsAt(l + 1) + row * dim + j] *
               host_.parameters[problem_.weights_at(l) + column * dim + j];
      if (l == 0) return sum;
      return sum * GeluSlope(host_.z[RowsAt(l - 1) + row * dim + column]);
    });
    Compare(
        Name("dW", l), host_.gradients, problem_.weights_at(l), dim, [&](long row, long column) {
          double sum = 0;
          for (long i = 0; i < batch; ++i)
            sum += host_.x[RowsAt(l) + i * dim + row] * host_.dz[RowsAt(l + 1) + i * dim + column];
          return sum;
        });
    Compare(Name("db", l), host_.gradients, problem_.biases_at(l), 1,
            [&](long /*row*/, long column) {
              double sum = 0;
              for (long i = 0; i < batch; ++i) sum += host_.dz[RowsAt(l + 1) + i * dim + column];
              return sum;
            });
  }

  // Allows one rounding of each element, so that a missing update is noticed.
  void CheckUpdate(long l) {
    CheckUpdate(Name("updated W", l), problem_.weights_at(l), problem_.dim * problem_.dim);
    CheckUpdate(Name("updated b", l), problem_.biases_at(l), problem_.dim);
  }
  void CheckUpdate(const std::string& what, long first, long count) {
    for (int sample = 0; sample < kSamples; ++sample) {
      const long i = first + Random(kSampleSeed, sample) % count;
      const double before = host_.parameters[i];
      const double expected = before - problem_.rate() * host_.gradients[i];
      const double allowed = 1.01 * unit_ * std::abs(expected) + kSmallestStep +
                             kFloatUnit * std::abs(before);  // the terms' own roundings
      finding_.Take(std::abs(host_.updated[i] - expected) / allowed, what);
    }
  }

  void Compare(const std::string& what, const HostTensor& tensor, long first, long rows,
               const Stage& stage) {
    std::vector<double> expected;
    std::vector<double> error;
    double square_sum = 0;
    for (int sample = 0; sample < kSamples; ++sample) {
      const long row = Random(kSampleSeed, 2L * sample) % rows;
      const long column = Random(kSampleSeed, 2L * sample + 1) % problem_.dim;
      expected.push_back(stage(row, column));
      error.push_back(std::abs(tensor[first + row * problem_.dim + column] - expected.back()));
      square_sum += expected.back() * expected.back();
    }
    const double rms = std::sqrt(square_sum / kSamples);
    for (int sample = 0; sample < kSamples; ++sample) {
      const double allowed = limit_ * (rms + std::abs(expected[sample]));
      finding_.Take(error[sample] / allowed, what);
    }
  }

  [[nodiscard]] long RowsAt(long l) const { return l * problem_.row_count(); }

  static constexpr int kSamples = 64;
  static constexpr std::uint32_t kSampleSeed = 97;
  static constexpr double kFloatUnit = 0x1p-23;
  static constexpr double kSmallestStep = 0x1p-25;  // half of the step between float16's smallest

  const MlpProblem& problem_;
  double unit_;
  double limit_;
  const HostTensors& host_;
  Finding finding_;
};

// Compares every element with the oracle.
class EndToEnd {
 public:
  EndToEnd(const MlpProblem& problem, double unit)
      : problem_(problem),
        allowed_(unit * std::sqrt(static_cast<double>(problem.steps * (4 * problem.layers + 2)))) {}

  Finding Check(const HostTensors& host, const TrainedMlp& oracle) {
    const long rows = problem_.row_count();
    const long last = problem_.layers - 1;
    Compare("the output", host.z, last * rows, oracle.last.output.data(), rows);
    Compare("the input's gradient", host.dz, 0, oracle.last.input_gradient.data(), rows);
    for (long l = 0; l < problem_.layers; ++l) {
      CompareParameters(Name("the weights' gradient", l), Name("the weights", l),
                        problem_.weights_at(l), problem_.dim * problem_.dim, host, oracle);
      CompareParameters(Name("the biases' gradient", l), Name("the biases", l),
                        problem_.biases_at(l), problem_.dim, host, oracle);
    }
    return finding_;
  }
  // The largest error of a tensor in the Euclidean norm.
  [[nodiscard]] double norm_error() const { return norm_error_; }
  [[nodiscard]] double allowed() const { return allowed_; }

 private:
  static constexpr double kMeanRounding = 0.4;

  void CompareParameters(const std::string& gradient, const std::string& parameter, long first,
                         long count, const HostTensors& host, const TrainedMlp& oracle) {
    Compare(gradient, host.gradients, first, &oracle.last.gradients[first], count);
    Compare(parameter, host.updated, first, &oracle.parameters[first], count);
  }

  void Compare(const std::string& what, const HostTensor& tensor, long first,
               const double* expected, long count) {
    double squares = 0;
    double error_squares = 0;
    for (long i = 0; i < count; ++i) {
      const double error = tensor[first + i] - expected[i];
      squares += expected[i] * expected[i];
      error_squares += error * error;
    }
    const double norm_error = std::sqrt(error_squares / squares);
    norm_error_ = std::max(norm_error_, norm_error);
    finding_.Take(norm_error / allowed_, what);
    const double rms = std::sqrt(squares / static_cast<double>(count));
    const double limit = RoundingError{0, kMeanRounding * allowed_}.Limit(count);
    for (long i = 0; i < count; ++i) {
      const double error = std::abs(tensor[first + i] - expected[i]);
      const double allowed = limit * (rms + std::abs(expected[i]));
      finding_.Take(error / allowed, what);
    }
  }

  const MlpProblem& problem_;
  double allowed_;
  double norm_error_ = 0;
  Finding finding_;
};

std::string Fault(const Finding& finding, const char* against) {
  if (finding.share <= 1) return "";
  std::ostringstream text;
  text << finding.what << " differs from " << against << " by " << finding.share
       << " times what is allowed";
  return text.str();
}

}  // namespace

MlpInputs RandomMlpInputs(const MlpProblem& problem) {
  MlpInputs inputs;
  inputs.parameters = Fractions(kMlpWeightSeed, problem.weight_count(), problem.weight_scale());
  const Doubles biases = Fractions(kMlpBiasSeed, problem.layers * problem.dim, 1);
  inputs.parameters.insert(inputs.parameters.end(), biases.begin(), biases.end());
  inputs.input = Fractions(kMlpInputSeed, problem.row_count(), 1);
  inputs.output_gradient = Fractions(kMlpGradientSeed, problem.row_count(), 1);
  return inputs;
}

MlpPass RunMlp(const MlpProblem& problem, const MlpInputs& inputs) {
  const auto& [dim, layers, batch, steps] = problem;
  std::vector<Doubles> x = {inputs.input};  // of each layer
  std::vector<Doubles> z;
  for (long l = 0; l < layers; ++l) {
    const double* weights = &inputs.parameters[problem.weights_at(l)];
    const double* biases = &inputs.parameters[problem.biases_at(l)];
    z.push_back(Times(x[l].data(), weights, batch, dim, dim));
    for (long i = 0; i < problem.row_count(); ++i) z[l][i] += biases[i % dim];
    x.push_back(z[l]);
    for (double& value : x.back()) value = Gelu(value);
  }
  MlpPass pass{z.back(), Doubles(problem.parameter_count()), {}};
  Doubles dz = inputs.output_gradient;
  for (long l = layers - 1; l >= 0; --l) {
    const Doubles dw =
        Times(Transposed(x[l].data(), batch, dim).data(), dz.data(), dim, batch, dim);
    std::copy(dw.begin(), dw.end(), pass.gradients.begin() + problem.weights_at(l));
    for (long i = 0; i < problem.row_count(); ++i)
      pass.gradients[problem.biases_at(l) + i % dim] += dz[i];
    const Doubles w_transposed = Transposed(&inputs.parameters[problem.weights_at(l)], dim, dim);
    dz = Times(dz.data(), w_transposed.data(), batch, dim, dim);
    if (l == 0) break;
    for (long i = 0; i < problem.row_count(); ++i) dz[i] *= GeluSlope(z[l - 1][i]);
  }
  pass.input_gradient = dz;
  return pass;
}

TrainedMlp TrainMlp(const MlpProblem& problem) {
  MlpInputs inputs = RandomMlpInputs(problem);
  MlpPass pass;
  for (long step = 0; step < problem.steps; ++step) {
    pass = RunMlp(problem, inputs);
    for (long i = 0; i < problem.parameter_count(); ++i)
      inputs.parameters[i] -= problem.rate() * pass.gradients[i];
  }
  return {pass, inputs.parameters};
}

double MlpNumbers::Unit(const MlpProblem& problem) const {
  const double of_float = UnitRoundoff(Element::kFloat32);
  const auto terms = static_cast<double>(std::max(problem.dim, problem.batch));
  return rounding + of_float * std::sqrt(terms);
}

RoundingError MlpNumbers::StageError(const MlpProblem& problem) const {
  constexpr double kRoundings = 3;
  const bool by_tensor_cores = rounding > UnitRoundoff(Element::kFloat32);
  return ErrorOfSum(std::max(problem.dim, problem.batch),
                    by_tensor_cores ? Adder::kTensorCores : Adder::kFloat32)
      .And({kRoundings * rounding, 0});
}

Verdict VerifyMlp(Stream& stream, const MlpProblem& problem, const MlpNumbers& numbers,
                  const MlpTensors& tensors, const TrainedMlp* oracle,
                  std::chrono::milliseconds timeout) {
  const HostTensors host = Read(stream, problem, numbers.element, tensors, timeout);
  Stages check_stages(problem, numbers, host);
  const Finding stages = check_stages.Check();
  const double limit = check_stages.limit();
  Verdict verdict{stages.share * limit, limit, Fault(stages, "its stage")};
  if (oracle == nullptr || !verdict.fault.empty()) return verdict;
  EndToEnd check(problem, numbers.Unit(problem));
  const Finding all = check.Check(host, *oracle);
  return {check.norm_error(), check.allowed(), Fault(all, "the oracle")};
}

}  // namespace overlapbench
