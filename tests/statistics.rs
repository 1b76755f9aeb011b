//! The statistics against vectors computed with numpy and scipy.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise, and says how much it compared"
)]

use regbundle::model::analysis::PointStatistics;
use regbundle::model::plan::Role;
use regbundle::stats::interval::{Boot, boot_interval};
use regbundle::stats::location::{drop_first_mean, mean, sample_sd};
use regbundle::stats::sandwich::sandwich;
use serde_json::Value;

/// Boots of a vector in order, and what they stand for.
const BOOTS: [(&str, Role); 3] = [
    ("parent_a", Role::Parent),
    ("child", Role::Child),
    ("parent_b", Role::Parent),
];
/// The margins of the equivalence tests in the file, percent.
const MARGINS: [f64; 3] = [1.0, 2.0, 5.0];

/// Compares and counts.
struct Compared {
    vector: String,
    values: usize,
}

impl Compared {
    /// Compares within the file's relative tolerance.
    #[track_caller]
    fn equal(&mut self, name: &str, found: f64, wanted: &Value) {
        let wanted = wanted
            .as_f64()
            .unwrap_or_else(|| unreachable!("{} {name}: {wanted} is no number", self.vector));
        let tiny_p = name.starts_with("p_") && wanted < 1e-12;
        let tolerance = if tiny_p { 1e-7 } else { 1e-9 };
        let apart = (found - wanted).abs();
        assert!(
            apart <= tolerance * wanted.abs(),
            "{} {name}: found {found:e}, wanted {wanted:e}",
            self.vector
        );
        self.values += 1;
    }

    /// Compares the interval with floor, as this program has it.
    fn interval(&mut self, parents: &[Boot], children: &[Boot], contrast: &Value) {
        let wanted = &contrast["boot_t"];
        for margin in MARGINS {
            let found = boot_interval(parents, children, margin).unwrap();
            let test = &wanted["tost"][format!("\u{b1}{margin}%")];
            self.equal("p_tost", found.p_equivalence, &test["p_tost"]);
        }
        let found = boot_interval(parents, children, 1.0).unwrap();
        assert_eq!(
            Value::from(found.floor_binds),
            contrast["floor_binds"],
            "{}",
            self.vector
        );
        let df = u32::try_from(found.df).unwrap();
        self.equal("df", f64::from(df), &wanted["df"]);
        self.equal("s", found.s, &wanted["s"]);
        self.equal("p_two_sided", found.p, &wanted["p_two_sided"]);
        self.equal("ci95 low", found.low95_pct, &wanted["ci95_percent"][0]);
        self.equal("ci95 high", found.high95_pct, &wanted["ci95_percent"][1]);
        self.equal("ci90 low", found.low90_pct, &wanted["ci90_percent"][0]);
        self.equal("ci90 high", found.high90_pct, &wanted["ci90_percent"][1]);
        self.values += 1;
    }
}

fn vectors(kind: &str) -> Vec<Value> {
    let file = include_str!("data/stats_vectors.json");
    let all: Value = serde_json::from_str(file).unwrap();
    let vectors = all["vectors"].as_array().unwrap();
    vectors
        .iter()
        .filter(|vector| vector["kind"] == kind)
        .cloned()
        .collect()
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().unwrap();
    list.iter().map(|value| value.as_f64().unwrap()).collect()
}

fn compared(vector: &Value) -> Compared {
    Compared {
        vector: vector["id"].as_str().unwrap().to_owned(),
        values: 0,
    }
}

fn of_role(boots: &[Boot], role: Role) -> Vec<Boot> {
    let mut found = Vec::new();
    for (boot, (_, its)) in boots.iter().zip(BOOTS) {
        if its == role {
            found.push(*boot);
        }
    }
    found
}

#[test]
fn rounds_of_three_boots_give_the_figures_of_numpy_and_scipy() {
    let mut values = 0;
    let vectors = vectors("sandwich_3_boots");
    for vector in &vectors {
        let mut compared = compared(vector);
        let resolution = vector["resolution"].as_f64().unwrap();
        let (mut points, mut boots) = (Vec::new(), Vec::new());
        for (position, (label, role)) in (1..).zip(BOOTS) {
            let rounds = numbers(&vector["rounds"][label]);
            let wanted = &vector["per_boot"][label];
            let location = mean(&rounds).unwrap();
            let sd = sample_sd(&rounds).unwrap();
            let point = PointStatistics {
                position,
                label: label.to_owned(),
                role,
                n: rounds.len(),
                mean: location,
                sd: Some(sd),
                drop_first_mean: drop_first_mean(&rounds),
            };
            assert_eq!(Value::from(rounds.len()), wanted["n"]);
            compared.equal("mean", location, &wanted["mean"]);
            compared.equal("sd", sd, &wanted["sd_sample"]);
            let cv = point.cv_pct().unwrap();
            compared.equal("cv", cv, &wanted["cv_sample_percent"]);
            let dropped = point.drop_first_mean.unwrap();
            compared.equal("drop-first mean", dropped, &wanted["drop_first_mean"]);
            boots.push(Boot {
                location,
                sd,
                n: rounds.len(),
                resolution,
            });
            points.push(point);
        }
        let found = sandwich(&points).unwrap();
        let wanted = &vector["published_style"];
        compared.equal("midpoint", found.midpoint, &wanted["parent_midpoint"]);
        compared.equal(
            "delta",
            found.delta_pct,
            &wanted["child_vs_midpoint_percent"],
        );
        let dropped = found.drop_first_pct.unwrap();
        compared.equal("drop-first", dropped, &wanted["drop_first_percent"]);
        let drift = found.drift_pct.unwrap();
        compared.equal("drift", drift, &wanted["drift_b_over_a_percent"]);
        let (a, b) = (&wanted["child_vs_a_percent"], &wanted["child_vs_b_percent"]);
        let (low, high) = if a.as_f64() < b.as_f64() {
            (a, b)
        } else {
            (b, a)
        };
        compared.equal("smallest pair", found.pair_min_pct, low);
        compared.equal("largest pair", found.pair_max_pct, high);
        let cvs = points.iter().filter_map(PointStatistics::cv_pct);
        let cv_max = cvs.reduce(f64::max).unwrap();
        compared.equal("max CV", cv_max, &wanted["max_cv_sample_percent"]);
        compared.interval(
            &of_role(&boots, Role::Parent),
            &of_role(&boots, Role::Child),
            &vector["boot_level"],
        );
        values += compared.values;
    }
    eprintln!(
        "{} vectors of rounds, {values} values compared",
        vectors.len()
    );
    // Four vectors of 12 + 7 + 11 figures.
    assert_eq!((vectors.len(), values), (4, 120));
}

#[test]
fn published_summaries_of_three_boots_give_the_figures_of_scipy() {
    let mut values = 0;
    let vectors = vectors("summary_only_3_boots");
    for vector in &vectors {
        let mut compared = compared(vector);
        let inputs = &vector["inputs"];
        let cvs = numbers(&inputs["cv_percent"]);
        let n = usize::try_from(inputs["rounds"].as_u64().unwrap()).unwrap();
        let (mut points, mut boots) = (Vec::new(), Vec::new());
        for (position, (label, role)) in (1..).zip(BOOTS) {
            let location = inputs[label].as_f64().unwrap();
            let sd = cvs[usize::try_from(position).unwrap() - 1] / 100.0 * location;
            points.push(PointStatistics {
                position,
                label: label.to_owned(),
                role,
                n,
                mean: location,
                sd: Some(sd),
                drop_first_mean: None,
            });
            boots.push(Boot {
                location,
                sd,
                n,
                resolution: 0.0,
            });
        }
        let found = sandwich(&points).unwrap();
        let wanted = &vector["published_style"];
        compared.equal("midpoint", found.midpoint, &wanted["midpoint"]);
        compared.equal(
            "delta",
            found.delta_pct,
            &wanted["child_vs_midpoint_percent"],
        );
        let drift = found.drift_pct.unwrap();
        compared.equal("drift", drift, &wanted["drift_b_over_a_percent"]);
        compared.interval(
            &of_role(&boots, Role::Parent),
            &of_role(&boots, Role::Child),
            &vector["boot_level"],
        );
        values += compared.values;
    }
    eprintln!("{} summaries, {values} values compared", vectors.len());
    // Three summaries of 3 + 11 figures.
    assert_eq!((vectors.len(), values), (3, 42));
}

#[test]
fn eight_boots_of_two_kernels_give_the_interval_of_scipy() {
    let vectors = vectors("boot_level_only_8_boots_PCCP_PCCP");
    let mut values = 0;
    for vector in &vectors {
        let mut compared = compared(vector);
        let arm = |name: &Value| -> Vec<Boot> {
            let labels = vector["arms"][name.as_str().unwrap()].as_array().unwrap();
            labels
                .iter()
                .map(|label| Boot {
                    location: vector["boot_values"][label.as_str().unwrap()]
                        .as_f64()
                        .unwrap(),
                    sd: 0.0,
                    n: 0,
                    resolution: 0.0,
                })
                .collect()
        };
        let contrast = &vector["contrast"];
        let parents = arm(&contrast["denominator_arm"]);
        let children = arm(&contrast["numerator_arm"]);
        assert_eq!((parents.len(), children.len()), (4, 4));
        compared.interval(&parents, &children, contrast);
        values += compared.values;
    }
    eprintln!(
        "{} series of eight boots, {values} values compared",
        vectors.len()
    );
    assert_eq!((vectors.len(), values), (1, 11));
}
