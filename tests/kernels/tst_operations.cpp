// Every case of the operation table on every backend of the build: the reference against the
// formula in double, the others against the reference.
#include <QtTest>

#include "tests/kernels/op_table.h"

using namespace vitrine::test;

Q_DECLARE_METATYPE(EmbeddingInput)
Q_DECLARE_METATYPE(RmsNormInput)
Q_DECLARE_METATYPE(LinearInput)
Q_DECLARE_METATYPE(Int8LinearInput)
Q_DECLARE_METATYPE(RopeInput)
Q_DECLARE_METATYPE(AttentionInput)
Q_DECLARE_METATYPE(GateInput)
Q_DECLARE_METATYPE(HadamardInput)
Q_DECLARE_METATYPE(AddInput)
Q_DECLARE_METATYPE(SoftmaxInput)

namespace {

const std::vector<OpBackend>& backends() {
  static const std::vector<OpBackend> all = opBackends();
  return all;
}

/// A row for each case and each backend that has the operation.
template <typename Input>
void addRows(std::function<Floats(const Input&)> OpBackend::*operation,
             const std::vector<NamedCase<Input>>& cases) {
  QTest::addColumn<int>("backend");
  QTest::addColumn<Input>("input");
  for (const NamedCase<Input>& one : cases) {
    for (std::size_t b = 0; b < backends().size(); ++b) {
      if (!(backends()[b].*operation)) continue;
      QTest::newRow((backends()[b].name + ": " + one.name).c_str())
          << static_cast<int>(b) << one.input;
    }
  }
}

template <typename Input>
void runRow() {
  QFETCH(int, backend);
  QFETCH(Input, input);
  const std::string difference = runCase(backends()[static_cast<std::size_t>(backend)], input);
  QVERIFY2(difference.empty(), difference.c_str());
}

}  // namespace

class TestOperations : public QObject {
  Q_OBJECT

 private slots:
  void embedding_data() { addRows(&OpBackend::embedding, embeddingCases()); }
  void embedding() { runRow<EmbeddingInput>(); }
  void rmsNorm_data() { addRows(&OpBackend::rmsNorm, rmsNormCases()); }
  void rmsNorm() { runRow<RmsNormInput>(); }
  void linear_data() { addRows(&OpBackend::linear, linearCases()); }
  void linear() { runRow<LinearInput>(); }
  void int8Linear_data() { addRows(&OpBackend::int8Linear, int8LinearCases()); }
  void int8Linear() { runRow<Int8LinearInput>(); }
  void rope_data() { addRows(&OpBackend::rope, ropeCases()); }
  void rope() { runRow<RopeInput>(); }
  void attention_data() { addRows(&OpBackend::attention, attentionCases()); }
  void attention() { runRow<AttentionInput>(); }
  void gate_data() { addRows(&OpBackend::gate, gateCases()); }
  void gate() { runRow<GateInput>(); }
  void hadamard_data() { addRows(&OpBackend::hadamard, hadamardCases()); }
  void hadamard() { runRow<HadamardInput>(); }
  void add_data() { addRows(&OpBackend::add, addCases()); }
  void add() { runRow<AddInput>(); }
  void softmax_data() { addRows(&OpBackend::softmax, softmaxCases()); }
  void softmax() { runRow<SoftmaxInput>(); }

  void everyBackendIsThere() {
    QVERIFY(!backends().empty());
    QCOMPARE(backends().front().name, std::string("reference"));
    const QByteArray wanted = qgetenv("VITRINE_OP_BACKEND");
    QVERIFY(backends().size() > 1 || wanted.isEmpty());
    if (!wanted.isEmpty()) QVERIFY(backends().back().name.starts_with(wanted.toStdString()));
  }
};

QTEST_APPLESS_MAIN(TestOperations)
#include "tst_operations.moc"
