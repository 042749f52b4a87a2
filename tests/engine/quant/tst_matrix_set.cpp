// Sets of matrices as text, and the line that names a precision.
#include <QtTest>

#include "engine/backend/precision.h"
#include "engine/quant/calibration_profile.h"

using namespace vitrine::engine;

class TestMatrixSet : public QObject {
  Q_OBJECT

 private slots:
  void textIsReadAndWritten_data() {
    QTest::addColumn<QString>("text");
    QTest::addColumn<int>("size");
    QTest::addColumn<QString>("shortest");
    QTest::newRow("nothing") << "" << 0 << "";
    QTest::newRow("a layer") << "3" << 7 << "3";
    QTest::newRow("a part") << "3.down" << 1 << "3.down";
    QTest::newRow("a range") << "0-2" << 21 << "0-2";
    QTest::newRow("a part of all layers") << "*.o" << 6 << "0-5.o";
    QTest::newRow("output") << "output" << 1 << "output";
    QTest::newRow("doubles and spaces") << " 1 , 1.q,0.k , output" << 9 << "1,0.k,output";
    QTest::newRow("a part around a layer") << "0-3.q,1" << 10 << "1,0.q,2-3.q";
    QTest::newRow("parts that make a layer") << "2.q,2.k,2.v,2.o,2.gate,2.up,2.down" << 7 << "2";
    QTest::newRow("everything") << "*,output" << 43 << "0-5,output";
  }
  void textIsReadAndWritten() {
    QFETCH(QString, text);
    QFETCH(int, size);
    QFETCH(QString, shortest);
    const auto set = MatrixSet::parse(text.toStdString(), 6);
    QVERIFY2(set.has_value(), set ? "" : set.error().message.c_str());
    QCOMPARE(set->size(), size);
    QCOMPARE(QString::fromStdString(set->text()), shortest);
    QVERIFY(MatrixSet::parse(set->text(), 6).value() == *set);
  }

  void whatCannotBeReadIsNamed_data() {
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("named");
    QTest::newRow("a word") << "3,middle"
                            << "\"middle\"";
    QTest::newRow("an unknown part") << "3.norm"
                                     << "\"3.norm\"";
    QTest::newRow("no layer before the part") << ".q"
                                              << "\".q\"";
    QTest::newRow("backwards") << "4-2"
                               << "\"4-2\"";
    QTest::newRow("negative") << "-1"
                              << "\"-1\"";
    QTest::newRow("beyond the model") << "6"
                                      << "0 to 5";
    QTest::newRow("a range beyond the model") << "0-99"
                                              << "0 to 5";
    QTest::newRow("too large for a number") << "99999999999"
                                            << "\"99999999999\"";
    QTest::newRow("nothing between commas") << "1,,2"
                                            << "\"\"";
    QTest::newRow("the output of a layer") << "3.output"
                                           << "\"3.output\"";
  }
  void whatCannotBeReadIsNamed() {
    QFETCH(QString, text);
    QFETCH(QString, named);
    const auto set = MatrixSet::parse(text.toStdString(), 6);
    QVERIFY(!set);
    QVERIFY(set.error().code == ErrorCode::kInvalidArgument);
    QVERIFY2(set.error().message.find(named.toStdString()) != std::string::npos,
             set.error().message.c_str());
  }

  void membersComeAndGo() {
    MatrixSet set;
    set.addLayer(1);
    QVERIFY(set.containsLayer(1) && set.contains(1, MatrixPart::kDown) && !set.containsLayer(0));
    set.remove(1, MatrixPart::kV);
    QVERIFY(!set.containsLayer(1) && !set.contains(1, MatrixPart::kV));
    QCOMPARE(set.size(), 6);
    QCOMPARE(MatrixSet::all(2).size(), 15);
    QVERIFY(MatrixSet::all(2).contains(-1, MatrixPart::kOutput));
  }

  void onlyWhatCountsIsInTheKey() {
    WeightPrecision a, b;
    b.smoothing = 0.9F;  // nothing is smoothed
    b.groupSize = 64;    // nor grouped
    b.keep.addLayer(0);
    QVERIFY(a == b);
    a.weights = b.weights = WeightMode::kInt8;
    QVERIFY(!(a == b));
    b.groupSize = 32;
    QVERIFY(!(a == b));
    b.keep = {};
    QVERIFY(a == b);
    b.activations = ActivationMode::kInt8;
    a.activations = ActivationMode::kInt8;
    b.outliers = OutlierMode::kSmooth;
    QVERIFY(!(a == b));
    a.outliers = OutlierMode::kSmooth;
    QVERIFY(!(a == b));  // other strengths
    a.smoothing = b.smoothing;
    QVERIFY(a == b);
    a.weightScales = WeightScales::kChannel;
    QVERIFY(!(a == b));
  }

  void profilesCountByTheirId() {
    const auto profile = [](const char* id, const char* name) {
      auto made = std::make_shared<CalibrationProfile>();
      made->id = id;
      made->name = name;
      return made;
    };
    WeightPrecision a;
    a.weights = WeightMode::kInt8;
    a.activations = ActivationMode::kInt8;
    WeightPrecision b = a;
    a.calibration = profile("1", "x");
    QVERIFY(a == b);  // it has no effect
    a.activationScales = b.activationScales = ActivationScales::kStatic;
    b.calibration = profile("2", "x");
    QVERIFY(!(a == b));
    b.calibration = profile("1", "y");
    QVERIFY(a == b);
  }
};

QTEST_APPLESS_MAIN(TestMatrixSet)
#include "tst_matrix_set.moc"
