use proptest::prelude::*;

use super::*;

const BOOT_ID: &str = "7c9d3a52-1f0e-4b6a-9c58-0d2e4f6a8b1c";
const MACHINE_ID: &str = "00112233445566778899aabbccddeeff";

fn redactor() -> Redactor {
    Redactor::new(Private {
        host: Some("lab-nehalem.example.org".into()),
        user: Some("carol".into()),
        home: Some("/data/people/carol/".into()),
        machine_id: Some(MACHINE_ID.into()),
        serials: vec![
            "CZ1234ABCD".into(),
            "Default string".into(),
            "1234567890".into(),
        ],
    })
}

fn assert_redacted(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(redactor().redact(text), *expected, "{text}");
    }
}

fn assert_kept(texts: &[&str]) {
    for text in texts {
        assert_eq!(redactor().redact(text), *text);
        assert_eq!(redactor().find(text), [], "{text}");
    }
}

#[test]
fn names_are_replaced_as_whole_tokens() {
    assert_redacted(&[
        ("carol@lab-nehalem:~$", "<user>@<host>:~$"),
        ("on lab-nehalem.example.org.", "on <host>."),
        ("lab-nehalem.lan", "<host>.lan"),
        ("/data/people/carol/linux", "<home>/linux"),
        ("/home/dave/linux: /home/bob", "<home>/linux: <home>"),
        (r#""a\ncarol""#, r#""a\n<user>""#),
        ("/dev/mapper/carol--vg-root", "/dev/mapper/<user>--vg-root"),
        ("serial CZ1234ABCD", "serial <id>"),
    ]);
    assert_kept(&[
        "caroline",
        "carol-test",
        "io-uring-carol",
        "carol_x",
        "Carol",
        "/home/",
        "1234567890",
        "Default string",
        "/mnt/homepage/x",
        "/home/<x>",
        "/home/$USER/x",
    ]);
}

#[test]
fn common_and_short_names_are_not_private() {
    let redactor = Redactor::new(Private {
        host: Some("localhost".into()),
        user: Some("root".into()),
        home: Some("/root".into()),
        ..Private::default()
    });
    let text = "root@localhost:/root# ip=127.0.0.1 ::1 0.0.0.0:2024";
    assert_eq!(redactor.redact(text), text);
    for name in ["vm", "bob", "(none)", "4096", "user", ""] {
        let redactor = Redactor::new(Private {
            host: Some(name.into()),
            user: Some(name.into()),
            ..Private::default()
        });
        let text = format!("x {name} y");
        assert_eq!(redactor.redact(&text), text);
    }
}

#[test]
fn addresses_are_replaced() {
    assert_redacted(&[
        (
            "inet 192.168.1.4/24 brd 192.168.1.255.",
            "inet <ip>/24 brd <ip>.",
        ),
        ("http://10.0.0.1:80/", "http://<ip>:80/"),
        ("10.0.0.1-10.0.0.9", "<ip>-<ip>"),
        ("kernel: 10.0.0.1 unreachable", "kernel: <ip> unreachable"),
        ("inet6 fe80::1%eth0", "inet6 <ip>%eth0"),
        ("inet6:2001:db8::7: up", "inet6:<ip>: up"),
        ("[2001:db8:0:1:2:3:4:5]:22", "[<ip>]:22"),
        ("::ffff:10.0.0.1", "<ip>"),
        ("link/ether 52:54:00:12:34:56 brd", "link/ether <mac> brd"),
        ("mac:52:54:00:12:34:56", "mac:<mac>"),
        ("BOOTIF=01-52-54-00-12-34-56", "BOOTIF=<mac>"),
    ]);
}

#[test]
fn versions_and_times_and_code_are_not_addresses() {
    assert_kept(&[
        "linux-6.12.117.0",
        "6.12.117.0-1",
        "6.18.4.1-rc1",
        "v6.18.4.1",
        "6.18.4.1+",
        "Linux version 6.18.4.1 (gcc",
        r#""release": "6.18.4.1""#,
        "Linux 6.18.4.1",
        "5.4.302.999",
        "12:34:56",
        "2026-06-02T10:11:12Z",
        "std::add::bad",
        "0::/user",
        "9:name=systemd:/",
        "0000:00:1f.2",
        "1.2.3",
        "1.2.3.4.5",
        "cafe::add_more",
    ]);
}

#[test]
fn disk_and_machine_ids_are_replaced() {
    let uuid = "11111111-2222-3333-4444-555555555555";
    assert_redacted(&[
        (&format!("root=UUID={uuid} ro"), "root=UUID=<id> ro"),
        (
            &format!("rd.luks.name={uuid}=root"),
            "rd.luks.name=<id>=root",
        ),
        (&format!("PARTUUID=\"{uuid}\""), "PARTUUID=\"<id>\""),
        ("UUID=ABCD-1234 /boot", "UUID=<id> /boot"),
        (
            "/dev/disk/by-id/ata-Samsung_SSD_S5Y1-part2, x",
            "/dev/disk/by-id/<id>, x",
        ),
        (MACHINE_ID, "<id>"),
        (
            "machine-id: ffeeddccbbaa99887766554433221100",
            "machine-id: <id>",
        ),
    ]);
}

#[test]
fn boot_ids_and_digests_stay() {
    assert_kept(&[
        BOOT_ID,
        &format!("boot_id={BOOT_ID}"),
        &format!(r#"{{"boot_id":"{BOOT_ID}"}}"#),
        &format!("data/journal/0001-{BOOT_ID}.tsv"),
        // A journal's hashes have the shape of a machine id.
        "1\trow\tffeeddccbbaa99887766554433221100",
        "/dev/disk/by-id or a/b",
        "6e0d71c288fdcf5866f5d0c6cde850a091cc3c55",
    ]);
}

#[test]
fn a_command_line_loses_the_values_of_private_keys() {
    let redactor = redactor();
    for (text, expected) in [
        (
            "BOOT_IMAGE=(hd0,gpt2)/boot/vmlinuz-6.12 root=/dev/vda1 ro quiet\n",
            "BOOT_IMAGE=vmlinuz-6.12 root=<id> ro quiet",
        ),
        (
            "resume=/dev/sda3 ip=dhcp nfsroot=srv:/x",
            "resume=<id> ip=<ip> nfsroot=<id>",
        ),
        (
            "rd.luks.uuid=luks-1 cryptdevice=LABEL=x:root",
            "rd.luks.uuid=<id> cryptdevice=<id>",
        ),
        ("root=\"LABEL=my disk\" x=\"a b\"", "root=<id> x=\"a b\""),
        (
            &format!("img=dev:{BOOT_ID}:/x preempt=full"),
            "img=<id> preempt=full",
        ),
        (
            "console=ttyS0 10.1.1.1 -- --token abc",
            "console=ttyS0 <ip>",
        ),
    ] {
        let once = redactor.command_line(text);
        assert_eq!(once, expected);
        assert_eq!(redactor.command_line(&once), once);
    }
}

#[test]
fn hits_name_line_kind_and_text() {
    let hits = redactor().find("fine\nby carol from 10.0.0.1\n");
    let hit = |kind, found: &str| Hit {
        line: 2,
        kind,
        found: found.into(),
    };
    assert_eq!(hits, [hit(Kind::User, "carol"), hit(Kind::Ip, "10.0.0.1")]);
}

/// Names that no placeholder and no other part of the generated text contains.
fn name() -> impl Strategy<Value = String> {
    "q[a-z]{2}[a-z0-9]{1,8}z"
}

/// Text between two planted tokens; begins and ends outside words.
fn filler() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        " ",
        "\n",
        "\t",
        " @",
        ", ",
        " (",
        ") ",
        "\"",
        " = ",
        "/ ",
        " é ",
        "; 6.12.117 ",
        " - ",
        " <x> ",
        "\\n ",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_planted_is_left_and_twice_is_once(
        host in name(), user in name(), home in name(),
        v4 in (1u8..=126, any::<[u8; 3]>()),
        v6 in (0x2000u16..=0xffff, any::<[u16; 7]>()),
        mac in any::<[u8; 6]>(),
        order in Just((0..7).collect::<Vec<usize>>()).prop_shuffle(),
        fillers in prop::collection::vec(filler(), 8),
    ) {
        let home = format!("/people/{home}");
        let [b, c, d] = v4.1;
        let v4 = std::net::Ipv4Addr::new(v4.0, b, c, d).to_string();
        let [s, t, u, v, w, x, y] = v6.1;
        let v6 = std::net::Ipv6Addr::new(v6.0, s, t, u, v, w, x, y).to_string();
        let pairs: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        let planted = [
            host.clone(), user.clone(), home.clone(), v4, v6, pairs.join(":"), pairs.join("-"),
        ];
        let mut text = String::new();
        for (filler, index) in fillers.iter().zip(order) {
            text.push_str(filler);
            text.push_str(&planted[index]);
        }
        text.push_str(&fillers[7]);
        let redactor = Redactor::new(Private {
            host: Some(host), user: Some(user), home: Some(home), ..Private::default()
        });
        let once = redactor.redact(&text);
        for secret in &planted {
            prop_assert!(!once.contains(secret.as_str()), "{secret} left in {once:?} of {text:?}");
        }
        prop_assert_eq!(redactor.redact(&once), once.clone());
        prop_assert_eq!(redactor.find(&once), vec![]);
    }

    #[test]
    fn any_text_is_redacted_once_and_find_agrees(text in "[a-f0-9:.\\-<> =/\\\\nUID\n_é]{0,80}") {
        let redactor = redactor();
        let once = redactor.redact(&text);
        prop_assert_eq!(redactor.redact(&once), once.clone());
        prop_assert_eq!(redactor.find(&text).is_empty(), once == text);
    }

    #[test]
    fn any_command_line_is_redacted_once(text in "(root=|ip=|\"| |UUID=|BOOT_IMAGE=|[a-f0-9:.\\-<>)/]|carol|é){0,30}") {
        let redactor = redactor();
        let once = redactor.command_line(&text);
        prop_assert_eq!(redactor.command_line(&once), once.clone());
    }
}
