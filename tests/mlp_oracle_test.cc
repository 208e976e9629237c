// The oracle of networks against finite differences of its own forward pass, and the check of a
// trained network: takes the right tensors, and refuses each of them when one element is wrong.
#include "kernels/mlp_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"
#include "kernels/gelu_oracle.h"
#include "workload/data.h"
#include "workload/element.h"

namespace overlapbench {
namespace {

constexpr MlpProblem kSmall{16, 3, 32, 2};

// The function that the gradients differentiate: Σ output ∘ output_gradient.
double Loss(const MlpProblem& problem, const MlpInputs& inputs) {
  const Doubles output = RunMlp(problem, inputs).output;
  double sum = 0;
  for (std::size_t i = 0; i < output.size(); ++i) sum += output[i] * inputs.output_gradient[i];
  return sum;
}

// The central difference, whose error is of the order of the step squared.
double Slope(const MlpProblem& problem, MlpInputs& inputs, double& value) {
  constexpr double kStep = 1e-4;
  const double at = value;
  value = at + kStep;
  const double above = Loss(problem, inputs);
  value = at - kStep;
  const double below = Loss(problem, inputs);
  value = at;
  return (above - below) / (2 * kStep);
}

TEST(MlpOracle, OneLayerIsAProductAndABias) {
  const MlpProblem one{16, 1, 16, 1};
  MlpInputs inputs = RandomMlpInputs(one);
  const MlpPass pass = RunMlp(one, inputs);
  double sum = inputs.parameters[one.weight_count() + 5];
  for (long i = 0; i < 16; ++i) sum += inputs.input[48 + i] * inputs.parameters[i * 16 + 5];
  EXPECT_NEAR(pass.output[48 + 5], sum, 1e-12) << "row 3, column 5";
}

TEST(MlpOracle, GradientsOfParametersAreSlopes) {
  MlpInputs inputs = RandomMlpInputs(kSmall);
  const Doubles gradients = RunMlp(kSmall, inputs).gradients;
  ASSERT_EQ(gradients.size(), inputs.parameters.size());
  constexpr long kEvery = 7;  // weights and biases of every layer are among them
  for (std::size_t i = 0; i < gradients.size(); i += kEvery)
    EXPECT_NEAR(gradients[i], Slope(kSmall, inputs, inputs.parameters[i]), 1e-6) << i;
}

TEST(MlpOracle, GradientsOfTheInputAreSlopes) {
  MlpInputs inputs = RandomMlpInputs(kSmall);
  const Doubles gradient = RunMlp(kSmall, inputs).input_gradient;
  ASSERT_EQ(gradient.size(), inputs.input.size());
  for (std::size_t i = 0; i < gradient.size(); ++i)
    EXPECT_NEAR(gradient[i], Slope(kSmall, inputs, inputs.input[i]), 1e-6) << i;
}

TEST(MlpOracle, EveryStepDescendsTheGradient) {
  MlpInputs inputs = RandomMlpInputs(kSmall);
  const Doubles first = RunMlp(kSmall, inputs).gradients;
  for (std::size_t i = 0; i < first.size(); ++i) inputs.parameters[i] -= kSmall.rate() * first[i];
  const MlpPass second = RunMlp(kSmall, inputs);
  const TrainedMlp trained = TrainMlp(kSmall);
  EXPECT_EQ(trained.last.output, second.output);
  EXPECT_EQ(trained.last.gradients, second.gradients);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(trained.parameters[i], inputs.parameters[i] - kSmall.rate() * second.gradients[i]);
  }
}

TEST(MlpOracle, ValuesStayNearOne) {
  for (const long steps : {1L, 5L}) {
    const TrainedMlp trained = TrainMlp({256, 5, 64, steps});
    for (const Doubles* values : {&trained.last.output, &trained.last.input_gradient}) {
      double squares = 0;
      for (const double value : *values) squares += value * value;
      const double rms = std::sqrt(squares / static_cast<double>(values->size()));
      EXPECT_GT(rms, 0.1);
      EXPECT_LT(rms, 4);
    }
  }
}

TEST(MlpProblem, CountsThreeProductsPerLayerAndStep) {
  EXPECT_EQ((MlpProblem{256, 4, 128, 2}.flops()), 3.0 * 2 * 128 * 256 * 256 * 4 * 2);
}

// The tensors that training in double precision leaves, stored in float32.
struct Tensors {
  std::vector<float> parameters, updated, gradients, x, z, dz;

  [[nodiscard]] std::vector<std::vector<float>*> all() {
    return {&parameters, &updated, &gradients, &x, &z, &dz};
  }
};

void Append(std::vector<float>& to, const Doubles& values) {
  to.insert(to.end(), values.begin(), values.end());
}

// The gradient of each layer's output is the input gradient of the layers after it.
Tensors RightTensors(const MlpProblem& problem) {
  Tensors right;
  MlpInputs inputs = RandomMlpInputs(problem);
  for (long step = 0; step + 1 < problem.steps; ++step) {
    const Doubles gradients = RunMlp(problem, inputs).gradients;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      inputs.parameters[i] -= problem.rate() * gradients[i];
  }
  const TrainedMlp trained = TrainMlp(problem);
  Append(right.parameters, inputs.parameters);
  Append(right.updated, trained.parameters);
  Append(right.gradients, trained.last.gradients);
  const long square = problem.dim * problem.dim;
  Doubles x = inputs.input;
  Append(right.dz, trained.last.input_gradient);
  for (long l = 0; l < problem.layers; ++l) {
    const auto layers = [&](long first, long count, const Doubles& input) {
      MlpProblem part{problem.dim, count, problem.batch, 1};
      MlpInputs of_part{{}, input, inputs.output_gradient};
      const auto weights = inputs.parameters.begin() + first * square;
      const auto biases = inputs.parameters.begin() + problem.weight_count() + first * problem.dim;
      of_part.parameters.assign(weights, weights + count * square);
      of_part.parameters.insert(of_part.parameters.end(), biases, biases + count * problem.dim);
      return RunMlp(part, of_part);
    };
    const Doubles z = layers(l, 1, x).output;
    Append(right.x, x);
    Append(right.z, z);
    for (std::size_t i = 0; i < z.size(); ++i) x[i] = GeluValue(GeluForm::kTanh, z[i]);
    const bool last = l + 1 == problem.layers;
    Doubles dz =
        last ? inputs.output_gradient : layers(l + 1, problem.layers - l - 1, x).input_gradient;
    for (std::size_t i = 0; !last && i < dz.size(); ++i)
      dz[i] *= GeluDerivative(GeluForm::kTanh, z[i]);
    Append(right.dz, dz);
  }
  return right;
}

class MlpCheckTest : public OnEachBackend {
 protected:
  Verdict Verify(Tensors& tensors, Element element, double rounding, const TrainedMlp* oracle) {
    const auto stream = device().CreateStream();
    std::vector<Buffer> buffers;
    for (const auto* values : tensors.all()) {
      std::vector<std::byte> stored(values->size() * SizeOf(element));
      for (std::size_t i = 0; i < values->size(); ++i)
        Store(stored.data(), static_cast<long>(i), element, (*values)[i]);
      buffers.push_back(device().Allocate(stored.size(), MemoryKind::kDevice));
      stream->Copy(buffers.back().data(), stored.data(), stored.size());
      stream->Synchronize(kPatience, "storing a tensor");
    }
    const MlpTensors on_device{buffers[0].data(), buffers[1].data(), buffers[2].data(),
                               buffers[3].data(), buffers[4].data(), buffers[5].data()};
    return VerifyMlp(*stream, kSmall, {element, rounding}, on_device, oracle, kPatience);
  }
  Verdict Verify(Tensors& tensors, const TrainedMlp* oracle) {
    return Verify(tensors, Element::kFloat32, 0x1p-24, oracle);
  }

  Tensors tensors_ = RightTensors(kSmall);
  const TrainedMlp trained_ = TrainMlp(kSmall);
};
INSTANTIATE_ON_EACH_BACKEND(MlpCheckTest);

TEST_P(MlpCheckTest, AcceptsCorrectTensors) {
  for (const TrainedMlp* oracle : {&trained_, static_cast<const TrainedMlp*>(nullptr)}) {
    const Verdict verdict = Verify(tensors_, oracle);
    EXPECT_EQ(verdict.fault, "");
    EXPECT_LE(verdict.max_rel_err, verdict.tolerance);
    EXPECT_GT(verdict.max_rel_err, 0) << "float32 is not double precision";
  }
}

TEST_P(MlpCheckTest, AcceptsBfloat16TensorsAtTheirPrecision) {
  // Twice: here, unlike in training, a stage's inputs are rounded after its output was made.
  EXPECT_EQ(Verify(tensors_, Element::kBfloat16, 2 * 0x1p-8, &trained_).fault, "");
  EXPECT_NE(Verify(tensors_, Element::kBfloat16, 0x1p-12, &trained_).fault, "");
}

TEST_P(MlpCheckTest, StagesRefuseATensorWithSmallErrors) {
  constexpr float kOff = 1.000006F;  // a few times what rounding makes
  for (std::vector<float>* values : tensors_.all()) {
    const std::vector<float> right = *values;
    for (float& value : *values) value *= kOff;
    const std::string fault = Verify(tensors_, nullptr).fault;
    EXPECT_NE(fault.find("differs from its stage"), std::string::npos) << fault;
    *values = right;
  }
}

// The first tensor that is not a number is named, with its layer.
TEST_P(MlpCheckTest, NamesTheInputOfALayer) {
  for (long i = 0; i < kSmall.row_count(); ++i)
    tensors_.x[kSmall.row_count() + i] = std::numeric_limits<float>::quiet_NaN();
  const std::string fault = Verify(tensors_, nullptr).fault;
  EXPECT_EQ(fault.find("X of layer 1 differs from its stage by "), 0U) << fault;
}

TEST_P(MlpCheckTest, EndToEndRefusesOneWrongElement) {
  // Those that the oracle has: the parameters updated, the gradients, the output, the input's
  // gradient.
  struct Place {
    std::vector<float>* values;
    std::size_t index;
  };
  const std::size_t rows = kSmall.row_count();
  for (const auto& [values, index] :
       {Place{&tensors_.updated, 0}, Place{&tensors_.updated, tensors_.updated.size() - 1},
        Place{&tensors_.gradients, 100}, Place{&tensors_.z, tensors_.z.size() - rows + 9},
        Place{&tensors_.dz, 3}}) {
    float& value = values->at(index);
    for (const float wrong : {-value, std::numeric_limits<float>::quiet_NaN()}) {
      const float right = std::exchange(value, wrong);
      EXPECT_NE(Verify(tensors_, &trained_).fault, "") << index;
      value = right;
    }
  }
  EXPECT_EQ(Verify(tensors_, &trained_).fault, "");
}

TEST_P(MlpCheckTest, RefusesAStepThatUpdatedNothing) {
  tensors_.updated = tensors_.parameters;
  const std::string fault = Verify(tensors_, nullptr).fault;
  EXPECT_EQ(fault.find("updated "), 0U) << fault;
}

TEST_P(MlpCheckTest, EndToEndRefusesTrainingThatSkippedAStep) {
  Tensors fewer = RightTensors({kSmall.dim, kSmall.layers, kSmall.batch, kSmall.steps - 1});
  EXPECT_EQ(Verify(fewer, nullptr).fault, "") << "each stage of its last step is right";
  EXPECT_NE(Verify(fewer, &trained_).fault, "");
}

// ---- What is allowed

// With errors of the terms of 32 values, which is the batch.
constexpr double kUnit = 0x1p-24 + 0x1p-24 * 5.656854249492381;  // sqrt(32)
constexpr int kSamples = 64;
constexpr std::uint32_t kSampleSeed = 97;

const double kStage = RoundingError{3 * 0x1p-24}.And(ErrorOfSum(32)).Limit(kSamples);

TEST_P(MlpCheckTest, ToleratesWhatTheRoundingsOfAStageOrOfTheTrainingAddUpTo) {
  EXPECT_DOUBLE_EQ(Verify(tensors_, nullptr).tolerance, kStage);
  EXPECT_DOUBLE_EQ(Verify(tensors_, &trained_).tolerance, kUnit * std::sqrt(2 * (4 * 3 + 2)));
}

// The last layer's outputs are 1 % too large.
TEST_P(MlpCheckTest, AStagesErrorIsRelativeToItsSizeAndTheRootMeanSquare) {
  const long first = (kSmall.layers - 1) * kSmall.row_count();
  std::vector<double> right;
  double squares = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const long row = Random(kSampleSeed, 2L * sample) % kSmall.batch;
    const long column = Random(kSampleSeed, 2L * sample + 1) % kSmall.dim;
    right.push_back(tensors_.z[first + row * kSmall.dim + column]);
    squares += right.back() * right.back();
  }
  for (std::size_t i = first; i < tensors_.z.size(); ++i) tensors_.z[i] *= 1.01F;
  double worst = 0;
  for (const double value : right)
    worst =
        std::max(worst, 0.01 * std::abs(value) / (std::sqrt(squares / kSamples) + std::abs(value)));
  const Verdict verdict = Verify(tensors_, nullptr);
  EXPECT_NEAR(verdict.max_rel_err, worst, 1e-3 * worst);
  EXPECT_EQ(verdict.fault.find("Z of layer 2 differs from its stage by "), 0U) << verdict.fault;
}

// The same of one layer's updated biases, which may be off by one rounding each.
TEST_P(MlpCheckTest, AnUpdatesErrorIsRelativeToItsRounding) {
  const long first = kSmall.weight_count() + kSmall.dim;  // of layer 1
  double worst = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const long i = first + Random(kSampleSeed, sample) % kSmall.dim;
    const double right = tensors_.updated[i];
    const double allowed = 1.01 * kUnit * std::abs(right) + 0x1p-25 +
                           0x1p-23 * std::abs(double{tensors_.parameters[i]});
    worst = std::max(worst, 0.01 * std::abs(right) / allowed);
  }
  for (long i = first; i < first + kSmall.dim; ++i) tensors_.updated[i] *= 1.01F;
  const Verdict verdict = Verify(tensors_, nullptr);
  EXPECT_NEAR(verdict.max_rel_err, worst * kStage, 1e-3 * worst * kStage);
  EXPECT_EQ(verdict.fault.find("updated b of layer 1 "), 0U) << verdict.fault;
}

// An element that no stage's sample has.
TEST_P(MlpCheckTest, OneElementMayBeOffAsMuchAsTheLargestOfAll) {
  std::set<long> sampled;
  for (int sample = 0; sample < kSamples; ++sample)
    sampled.insert(Random(kSampleSeed, 2L * sample) % kSmall.batch * kSmall.dim +
                   Random(kSampleSeed, 2L * sample + 1) % kSmall.dim);
  long place = 0;
  while (sampled.contains(place)) ++place;
  const Doubles& right = trained_.last.input_gradient;
  double squares = 0;
  for (const double value : right) squares += value * value;
  const double rms = std::sqrt(squares / static_cast<double>(right.size()));
  const double allowed = kUnit * std::sqrt(28.0);
  const double most =
      RoundingError{0, 0.4 * allowed}.Limit(std::ssize(right)) * (rms + std::abs(right[place]));
  for (const double times : {0.95, 1.05}) {
    tensors_.dz[place] = static_cast<float>(right[place] + times * most);
    const Verdict verdict = Verify(tensors_, &trained_);
    EXPECT_EQ(verdict.fault.empty(), times < 1) << verdict.fault;
    EXPECT_NEAR(verdict.max_rel_err, times * most / std::sqrt(squares), 0.05 * allowed);
  }
}

}  // namespace
}  // namespace overlapbench
