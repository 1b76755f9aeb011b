//! Documents that follow from the code say what the code says.

use regbundle::render::catalogue::catalogue;
use regbundle::workload::registry;

#[test]
fn docs_workloads_holds_the_catalogue_as_it_is_declared() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/workloads.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = "<!-- from here to the next mark: regbundle workload docs -->\n\n";
    let (_, rest) = text.split_once(begin).unwrap();
    let (found, _) = rest.split_once("<!-- the end of that part -->").unwrap();
    let wanted = catalogue(registry::declarations());
    for (line, (found, wanted)) in (1..).zip(found.lines().zip(wanted.lines())) {
        assert_eq!(
            found, wanted,
            "line {line} of the part; `regbundle workload docs` prints it"
        );
    }
    assert_eq!(found, wanted);
}
